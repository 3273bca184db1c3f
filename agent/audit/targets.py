"""The targets that the audit's programs are written for, shared between them and both devices.

Small shapes, for each is checked on many inputs; those in :data:`LARGE` take long enough to time.
"""

from __future__ import annotations


def _plain(parameters: str, body: str, inputs: str, head: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return (
        f"import torch\nimport torch.nn.functional as F\n{head}"
        f"def reference({parameters}):\n{lines}"
        f"def inputs({'rows=48' if 'RANGES' in head else ''}):\n    return [{inputs}]\n"
    )


_SHARED = {
    "relu": ("x", "return torch.relu(x)", "torch.randn(24, 333)"),
    "softmax": ("x", "return torch.softmax(x, -1)", "torch.randn(24, 333)"),
    "rowsum": ("x", "return x.sum(-1)", "torch.randn(16, 4096)"),
    "rms": (
        "x",
        "return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)",
        "torch.randn(16, 512)",
    ),
    "rms_weight": (
        "x, w",
        "return F.rms_norm(x, (512,), w, 1e-5)",
        "torch.randn(32, 512), torch.randn(512)",
    ),
    "gaps": ("x", "return torch.relu(x)", "torch.randn(40, 70)[:, :50]"),
    "gelu": ("x", "return F.gelu(x)", "torch.randn(64, 500)"),
    "gelu_tanh": ("x", "return F.gelu(x, approximate='tanh')", "torch.randn(64, 500)"),
    "count": ("x", "return (x > 0).sum(-1)", "torch.randn(16, 300)"),
    "layer_norm": (
        "x, w, b",
        "return F.layer_norm(x, (512,), w, b)",
        "torch.randn(32, 512), torch.randn(512), torch.randn(512)",
    ),
    "transpose": ("x", "return x.t().contiguous()", "torch.randn(130, 70)"),
    "transpose_even": ("x", "return x.t().contiguous()", "torch.randn(130, 72)"),
    "cumsum": ("x", "return torch.cumsum(x, -1)", "torch.randn(16, 4096)"),
    "pool": ("x", "return F.max_pool2d(x, 3, 2, 1)", "torch.randn(2, 3, 31, 30)"),
    "embedding": (
        "weight, index",
        "return F.embedding(index, weight)",
        "torch.randn(100, 64), torch.randint(100, (40,))",
    ),
    "cross": (
        "x, y",
        "return F.cross_entropy(x, y)",
        "torch.randn(64, 500), torch.randint(500, (64,))",
    ),
    "argmax": ("x", "return x.argmax(-1)", "torch.randn(16, 301)"),
    "two": ("x", "return x.sum(-1), x.amax(-1)", "torch.randn(16, 300)"),
    "positive": ("x", "return x > 0", "torch.randn(24, 333)"),
    "integers": (
        "x, y",
        "return x * 3 - y",
        "torch.randint(-1000, 1000, (24, 333), dtype=torch.int32), "
        "torch.randint(-1000, 1000, (24, 333), dtype=torch.int32)",
    ),
    "masked": (
        "x, mask",
        "return torch.where(mask, x, 0.0)",
        "torch.randn(24, 333), torch.rand(24, 333) > 0.5",
    ),
    "column_sum": ("x", "return x.sum(-1)", "torch.randn(300, 70).t()"),
    "one": ("x", "return torch.relu(x)", "torch.randn(1)"),
    "scalars": (
        "x, alpha, shift, twice",
        "return (x * alpha + shift) * (2 if twice else 1)",
        "torch.randn(24, 333), 0.375, 3, True",
    ),
    "blur": (
        "x",
        "return 0.25 * x[:, :-2] + 0.5 * x[:, 1:-1] + 0.25 * x[:, 2:]",
        "torch.randn(24, 333)",
    ),
    "scaled_bytes": (
        "x",
        "return x.float() * (1 / 128) - 1",
        "torch.randint(0, 256, (24, 333), dtype=torch.uint8)",
    ),
    "index_add": (
        "x, index",
        "return x.new_zeros(64).index_add(0, index, x)",
        "torch.randn(5000), torch.randint(64, (5000,))",
    ),
    "histogram": (
        "x",
        "return (x[:, None] == torch.arange(64, device=x.device)).sum(0)",
        "torch.randint(64, (5000,))",
    ),
    "total": ("x", "return x.sum()", "torch.randn(1 << 18)"),
    "product": ("x, w", "return x @ w", "torch.randn(128, 256), torch.randn(256, 64)"),
    "product_deep": ("x, w", "return x @ w", "torch.randn(512, 4096), torch.randn(4096, 512)"),
    "product_relu": (
        "x, w, b",
        "return torch.relu(x @ w + b)",
        "torch.randn(128, 256), torch.randn(256, 64), torch.randn(64)",
    ),
    "product_bf16": (
        "x, w",
        "return x @ w",
        "torch.randn(128, 256).bfloat16(), torch.randn(256, 64).bfloat16()",
    ),
    "softmax_bf16": ("x", "return torch.softmax(x, -1)", "torch.randn(24, 1000).bfloat16()"),
    "rowsum_half": ("x", "return x.sum(-1)", "torch.randn(16, 4096).half()"),
    "rms_half": (
        "x",
        "return F.rms_norm(x, (512,), None, 1e-5)",
        "torch.randn(16, 512).half()",
    ),
    "turned": ("x", "return torch.relu(x)", "torch.randn(70, 130).t()"),
    "tiles": ("x", "return torch.relu(x)", "torch.randn(24, 320)"),
    "relu_large": ("x", "return torch.relu(x)", "torch.randn(2048, 2048)"),
    "softmax_large": ("x", "return torch.softmax(x, -1)", "torch.randn(4096, 1024)"),
}

TASKS = {
    **{name: _plain(*parts) for name, parts in _SHARED.items()},
    "joined": _plain("x, y", "return torch.cat([x, y])", "torch.randn(20, 7), torch.randn(0, 7)"),
    "softmax_ranged": _plain(
        "x",
        "return torch.softmax(x, -1)",
        "torch.randn(rows, 257)",
        'RANGES = {"rows": (1, 600)}\n',
    ),
    "updated": _plain(
        "x, y",
        "x.mul_(0.5).add_(y)\nreturn x.sum(-1)",
        "torch.randn(24, 333), torch.randn(24, 333)",
        'MUTATES = ("x",)\n',
    ),
}
# Large enough for their times to mean something; the audit calibrates these.
LARGE = frozenset({"relu_large", "softmax_large", "product_deep"})
