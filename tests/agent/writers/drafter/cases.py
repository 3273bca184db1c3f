"""References for the tests: the body of ``reference`` and the inputs, small and odd shapes."""

from __future__ import annotations

CASES: dict[str, tuple[str, str]] = {
    "softmax": ("def reference(x):\n    return torch.softmax(x, -1)", "torch.randn(5, 37)"),
    "softmax_bf16": (
        "def reference(x):\n    return torch.softmax(x, -1)",
        "torch.randn(3, 2, 65).to(torch.bfloat16)",
    ),
    "softmax_masked": (
        "def reference(x, mask):\n"
        "    return torch.softmax((x / 8 ** 0.5).masked_fill(mask, float('-inf')), -1)",
        "(torch.randn(2, 7, 7), torch.ones(7, 7).triu(1).bool())",
    ),
    "softmax_middle": (
        "def reference(x):\n    return torch.softmax(x, 1)",
        "torch.randn(3, 19, 5)",
    ),
    "log_softmax_f16": (
        "def reference(x):\n    return torch.log_softmax(x, -1)",
        "torch.randn(4, 33).half()",
    ),
    "logsumexp": (
        "def reference(x):\n    return torch.logsumexp(x, -1), x.amax(-1)",
        "torch.randn(6, 29)",
    ),
    "layer_norm": (
        "def reference(x, w, b):\n    return F.layer_norm(x, (3, 23), w, b)",
        "(torch.randn(4, 3, 23) * 3 + 100, torch.randn(3, 23), torch.randn(3, 23))",
    ),
    "layer_norm_strided": (
        "def reference(x, w):\n    return F.layer_norm(x, (23,), w)",
        "(torch.randn(23, 9).t(), torch.randn(46)[::2])",
    ),
    "rms_norm_residual": (
        "def reference(x, r, w):\n    h = x + r\n    return F.rms_norm(h, (31,), w, 1e-6), h",
        "(torch.randn(5, 31).to(torch.bfloat16), torch.randn(5, 31).to(torch.bfloat16),"
        " torch.randn(31).to(torch.bfloat16))",
    ),
    "group_norm_silu": (
        "def reference(x, w, b):\n    return F.silu(F.group_norm(x, 3, w, b))",
        "(torch.randn(2, 6, 5, 3).to(torch.bfloat16), torch.randn(6).to(torch.bfloat16),"
        " torch.randn(6).to(torch.bfloat16))",
    ),
    "batch_norm_relu": (
        "def reference(x, m, v, w, b):\n    return F.relu(F.batch_norm(x, m, v, w, b))",
        "(torch.randn(2, 5, 3, 7), torch.randn(5), torch.rand(5) + 0.1, torch.randn(5),"
        " torch.randn(5))",
    ),
    "batch_norm_batch": (
        "def reference(x):\n    return F.batch_norm(x, None, None, training=True)",
        "torch.randn(3, 4, 11) + 50",
    ),
    "gelus": (
        "def reference(x):\n"
        "    return F.gelu(x), F.gelu(x, approximate='tanh'), F.silu(x), torch.sigmoid(x)",
        "torch.randn(3, 41) * 3",
    ),
    "activations": (
        "def reference(x):\n"
        "    return (F.softplus(x), F.mish(x), F.elu(x), F.hardswish(x), F.leaky_relu(x),\n"
        "        F.logsigmoid(x), F.selu(x), F.softsign(x), torch.expm1(x), torch.log1p(x.abs()),\n"
        "        x.clamp(-0.5, 0.5), torch.erfc(x), x.pow(3), x.sign() * x.abs().sqrt())",
        "torch.randn(37) * 3",
    ),
    "silu_mul": (
        "def reference(x, y):\n    return F.silu(x) * y",
        "(torch.randn(7, 13).to(torch.bfloat16), torch.randn(7, 13).to(torch.bfloat16))",
    ),
    "rotary": (
        "def reference(x, c, s):\n"
        "    a, b = x.chunk(2, -1)\n"
        "    return x * c + torch.cat((-b, a), -1) * s",
        "tuple(torch.randn(*n).to(torch.bfloat16) for n in ((2, 3, 5, 14), (5, 14), (5, 14)))",
    ),
    "rotary_interleaved": (
        "def reference(x, c, s):\n"
        "    turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)\n"
        "    return x * c + turned * s",
        "(torch.randn(2, 5, 14), torch.randn(5, 14), torch.randn(5, 14))",
    ),
    "cats": (
        "def reference(x, y):\n"
        "    return torch.cat((x * 2, y.exp(), x[:, :1]), -1).sum(-1), torch.cat((x, x + 1), 0)",
        "(torch.randn(4, 6), torch.randn(4, 5))",
    ),
    "sums": (
        "def reference(x):\n"
        "    return (x.sum(-1), x.mean(), x.var(-1), x.std(dim=(1, 2)), x.amin(1), x.prod(-1),\n"
        "        x.norm(dim=-1), x.norm(p=1), (x > 0).sum(-1), (x > 0).any(-1), (x > 0).all())",
        "torch.randn(3, 5, 17)",
    ),
    "cross_entropy": (
        "def reference(x, y):\n    return F.cross_entropy(x, y)",
        "(torch.randn(9, 31), torch.randint(0, 31, (9,)))",
    ),
    "losses": (
        "def reference(x, y):\n"
        "    return (F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.cosine_similarity(x, y),\n"
        "        F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.normalize(x, dim=-1))",
        "(torch.randn(4, 19), torch.randn(4, 19))",
    ),
    "embedding": (
        "def reference(i, w):\n    return F.embedding(i, w) * 2.0 ** 0.5",
        "(torch.randint(0, 11, (3, 4)), torch.randn(11, 6))",
    ),
    "transpose": (
        "def reference(x):\n    return x.transpose(1, 2).contiguous()",
        "torch.randn(2, 7, 5)",
    ),
    "layouts": (
        "def reference(x):\n"
        "    y = x.permute(2, 0, 1).reshape(4, 15)[:, 1::2].flip(1)\n"
        "    z = x.expand(2, 3, 5, 4)[:, 1].contiguous()\n"
        "    return y.tril(), x.roll(1, -1) + torch.arange(4), z",
        "torch.randn(3, 5, 4)",
    ),
    "integers": (
        "def reference(x, y, m):\n"
        "    return (torch.where(m, x, y.to(x.dtype)), x // 3 + y % 4, (x * x) ^ 5, -y, x > y,\n"
        "        (x & 3).sum(-1), y.amax(-1), m & (x > 0), x.float() / 2, ~m, y.clamp(-2, 2))",
        "(torch.randint(-50, 50, (3, 11)), torch.randint(-8, 8, (3, 11), dtype=torch.int8),"
        " torch.rand(3, 11) > 0.5)",
    ),
    "doubles": (
        "def reference(x):\n    return torch.softmax(x, -1), F.gelu(x), F.layer_norm(x, (13,))",
        "torch.randn(4, 13, dtype=torch.float64)",
    ),
    "mixed_dtypes": (
        "def reference(x, y, i):\n    return x + y, x.double() * i, (y * i).mean(-1), i / 7",
        "(torch.randn(3, 9), torch.randn(9).half(), torch.randint(-9, 9, (3, 9)))",
    ),
    "single": (
        "def reference(x):\n    return torch.softmax(x, -1), F.layer_norm(x, (1,)), x.sum()",
        "torch.randn(3, 1)",
    ),
    "constants": (
        "def reference(x):\n"
        "    w = torch.tensor([1.0, -2.0, 0.5])\n"
        "    return x * w + torch.tensor(0.25), F.pad(x, (1, 2)), torch.eye(3) + x[:3]",
        "torch.randn(4, 3)",
    ),
    "scalar": (
        "def reference(x, s):\n    return x * s + 1, x / x.norm()",
        "(torch.randn(5, 3), torch.randn(()))",
    ),
    "totals_in_rows": (
        "def reference(x):\n"
        "    return torch.softmax(x / x.abs().max(), -1), (x - x.mean(-1, True)).abs().mean()",
        "torch.randn(6, 21)",
    ),
}
