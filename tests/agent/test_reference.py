from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
import torch
from torch import fx

from agent.errors import TaskError
from agent.reference import Reference, load
from agent.task import TaskSource, open_task

DATA = Path(__file__).parents[1] / "data"


def source(text: str, kind: str = "plain", path: str = "") -> TaskSource:
    return TaskSource(kind, "t", path, "import torch\nfrom torch import nn\n" + text, "cpu")


def plain(body: str, inputs: str = "torch.randn(4, 6)", params: str = "x") -> Reference:
    return load(
        source(f"def reference({params}):\n    {body}\ndef inputs():\n    return {inputs}\n")
    )


def model(init: str, forward: str, inputs: str = "[torch.randn(4, 6)]") -> Reference:
    return load(
        source(
            f"class Model(nn.Module):\n  def __init__(self):\n    super().__init__()\n    {init}\n"
            f"  def forward(self, x):\n    {forward}\ndef get_inputs():\n  return {inputs}\n",
            "kernelbench",
        )
    )


def operators(reference: Reference) -> list[str]:
    nodes = reference.graph.graph.nodes
    return [node.target.name() for node in nodes if isinstance(node.target, torch._ops.OpOverload)]


def failure(text: str, inputs: str = "torch.randn(4, 6)", params: str = "x") -> TaskError:
    with pytest.raises(TaskError) as caught:
        plain(text, inputs, params)
    error = caught.value
    assert error.cure
    assert "\n" not in error.message + error.cure
    return error


def check_exact(reference: Reference, tolerance: float = 1e-5) -> None:
    args = reference.sample(5)
    for eager, exact in zip(reference.function(*args), reference.float64(args), strict=True):
        if eager.is_floating_point():
            assert exact.dtype is torch.float64
            torch.testing.assert_close(
                eager.double(), exact, rtol=tolerance, atol=tolerance, equal_nan=True
            )
        else:
            assert torch.equal(eager, exact)


# Formats


def test_kernelbench_weights_become_arguments() -> None:
    reference = load(open_task(str(DATA / "kernelbench_norm_gelu.py"), "cpu"))
    spec = reference.spec
    assert [(arg.name, arg.kind, arg.shape) for arg in spec.args] == [
        ("x", "input", (64, 96)),
        ("norm_weight", "weight", (96,)),
        ("norm_bias", "weight", (96,)),
    ]
    assert spec.outputs[0].name == "out"
    assert spec.outputs[0].strides == (96, 1)
    assert (spec.read_bytes, spec.write_bytes) == (4 * (64 * 96 + 2 * 96), 4 * 64 * 96)
    x, weight, bias = reference.sample(1)
    expected = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (96,), weight, bias))
    torch.testing.assert_close(reference.function(x, weight, bias)[0], expected)
    check_exact(reference)


def test_a_program_that_leaves_a_fresh_weight_out_would_be_seen() -> None:
    reference = load(open_task(str(DATA / "kernelbench_norm_gelu.py"), "cpu"))
    _, weight, bias = reference.sample(1)
    assert weight.std() > 0.01
    assert bias.std() > 0.01
    assert weight.min() > 0


def test_kernelbench_linear() -> None:
    reference = load(open_task(str(DATA / "kernelbench_linear.py"), "cpu"))
    spec = reference.spec
    assert [arg.name for arg in spec.args] == ["x", "scale", "layers_0_weight", "layers_0_bias"]
    assert spec.flops == 2 * 8 * 32 * 16
    assert not any(name.split(".")[0].endswith("_") for name in operators(reference))
    assert "aten::relu" in operators(reference)
    check_exact(reference)


def test_weights_are_the_same_in_each_process_and_arguments_are_fresh() -> None:
    first, again = (load(open_task(str(DATA / "kernelbench_linear.py"), "cpu")) for _ in range(2))
    one, two = first.sample(3), again.sample(3)
    assert all(map(torch.equal, one, two))
    one[1].zero_()
    one[2].zero_()
    assert all(map(torch.equal, first.sample(3), two))
    assert not torch.equal(first.sample(4)[0], two[0])


def test_function_takes_the_weights_it_is_given() -> None:
    reference = load(open_task(str(DATA / "kernelbench_linear.py"), "cpu"))
    args = reference.sample(1)
    before = reference.function(*args)[0]
    changed = reference.function(args[0], args[1] * 2, *args[2:])[0]
    torch.testing.assert_close(changed, before * 2)
    assert torch.equal(reference.function(*args)[0], before)
    assert not before.requires_grad


def test_scalars_defaults_and_names() -> None:
    reference = plain(
        "return (x * scale + device).softmax(dim) if flag else x",
        "{'x': torch.randn(4, 6), 'scale': 2, 'device': torch.randn(6), 'flag': True}",
        "x, scale, device, dim=-1, flag=False, note='n', *, eps=float('inf')",
    )
    assert [arg.name for arg in reference.spec.args] == ["x", "device_"]
    scalars = reference.spec.scalars
    assert scalars == {"scale": 2, "dim": -1, "flag": True, "eps": float("inf")}
    check_exact(reference)


def test_nested_inputs_and_outputs() -> None:
    reference = plain(
        "return {'a': torch.cat(xs), 'b': [more['k'] + 1, (rest[0].argmax(-1), None)]}",
        "([torch.ones(2, 3), torch.zeros(1, 3)], {'k': torch.randn(3)}, torch.randn(2, 5))",
        "xs, more, *rest",
    )
    assert [arg.name for arg in reference.spec.args] == ["xs_0", "xs_1", "more_k", "rest_0"]
    assert [(out.name, out.dtype, out.shape) for out in reference.spec.outputs] == [
        ("out", "float32", (3, 3)),
        ("out1", "float32", (3,)),
        ("out2", "int64", (2,)),
    ]
    check_exact(reference)


def test_clashing_names_stay_apart() -> None:
    reference = load(
        source(
            "class Model(nn.Module):\n  def __init__(self):\n    super().__init__()\n"
            "    self.out = nn.Parameter(torch.rand(6)); self.x = nn.Parameter(torch.rand(6))\n"
            "    self.layers = nn.ModuleDict({'class': nn.Linear(6, 6)})\n"
            "  def forward(self, x, layers_class_bias):\n"
            "    return self.layers['class'](x * self.x + self.out) * layers_class_bias\n"
            "def get_inputs():\n  return [torch.randn(4, 6), torch.randn(6)]\n",
            "kernelbench",
        )
    )
    names = [arg.name for arg in reference.spec.args]
    assert names == ["x", "layers_class_bias", "out_", "x_2", "layers_class_weight",
                     "layers_class_bias_2"]  # fmt: skip
    check_exact(reference)


def test_builtin_function_and_module_as_reference() -> None:
    text = "reference = torch.sigmoid\ndef inputs():\n  return torch.randn(3)\n"
    assert [arg.name for arg in load(source(text)).spec.args] == ["x"]
    text = "reference = nn.Linear(3, 2)\ndef inputs():\n  return torch.randn(1, 3)\n"
    assert [arg.name for arg in load(source(text)).spec.args] == ["input", "weight", "bias"]


def test_inputs_may_ask_for_the_device() -> None:
    text = (
        "def reference(x): return x + 1\ndef inputs(device): return torch.ones(3, device=device)\n"
    )
    assert load(source(text)).spec.args[0].shape == (3,)


def test_the_text_runs_not_the_file_but_its_folder_is_importable(tmp_path: Path) -> None:
    (tmp_path / "forge_neighbour.py").write_text("PLUS = 3\n")
    (tmp_path / "task.py").write_text("raise SystemExit(3)\n")
    text = "from forge_neighbour import PLUS\ndef reference(x): return x + PLUS\n"
    text += "def inputs(): return torch.ones(2)\n"
    before = list(sys.path)
    reference = load(source(text, path=str(tmp_path / "task.py")))
    assert sys.path == before
    assert reference.function(torch.ones(2))[0].tolist() == [4, 4]


# Layout and bytes


def test_strides_of_inputs_and_outputs() -> None:
    reference = plain(
        "return x.relu(), y.exp(), z * 2",
        "torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last), "
        "torch.randn(6, 4).t(), torch.randn(5, 1).expand(5, 7)",
        "x, y, z",
    )
    strides = [arg.strides for arg in reference.spec.args]
    assert strides == [(48, 1, 12, 3), (1, 4), (1, 0)]
    assert [out.strides for out in reference.spec.outputs] == [(48, 1, 12, 3), (1, 4), (7, 1)]
    assert reference.spec.read_bytes == 4 * (96 + 24 + 5)
    assert [arg.stride() for arg in reference.sample(1)] == strides
    check_exact(reference)


def test_inputs_from_one_buffer_get_memory_of_their_own() -> None:
    reference = plain("return q @ k.t(), v + 1", "torch.randn(4, 12).chunk(3, -1)", "q, k, v")
    assert [arg.strides for arg in reference.spec.args] == [(12, 1)] * 3
    assert [arg.alignment for arg in reference.spec.args] == [64] * 3
    q, k, _ = reference.sample(1)
    assert q.untyped_storage().data_ptr() != k.untyped_storage().data_ptr()


def test_bytes_of_what_is_only_sliced_or_gathered() -> None:
    reference = plain(
        "return x[:, :2] + 1, table[i], torch.gather(y, 1, j), z[0] + z.sum(0)",
        "torch.randn(4, 6), torch.randn(100, 8), torch.tensor([5, 7]), torch.randn(3, 50), "
        "torch.zeros(3, 1, dtype=torch.int64) + torch.randint(50, (3, 1)), torch.randn(3, 2)",
        "x, table, i, y, j, z",
    )
    assert reference.spec.read_bytes == 4 * (4 * 2 + 2 * 8 + 3 + 3 * 2) + 8 * (2 + 3)


# The float64 answer


def test_down_casts_do_not_round_in_float64() -> None:
    reference = plain(
        "return (x.to(torch.bfloat16).float() + x.sum(-1, keepdim=True, dtype=torch.float32)"
        " + torch.ones(6, dtype=torch.float16)).half()"
    )
    x = reference.sample(1)[0]
    wide = x.double()
    torch.testing.assert_close(
        reference.float64([x])[0], wide + wide.sum(-1, keepdim=True) + 1, rtol=1e-15, atol=1e-15
    )


@pytest.mark.parametrize(
    ("body", "inputs", "params"),
    [
        ("return torch.softmax(x, -1, dtype=torch.float32)", "torch.randn(4, 6).bfloat16()", "x"),
        ("return (x / 3).sqrt() + torch.arange(4) / 3", "torch.randint(9, (4,))", "x"),
        ("return nn.functional.rms_norm(x, (6,))", "torch.randn(4, 6).half() / 1000", "x"),
        ("return torch.nan_to_num(x / 0)", "torch.randn(4, 6)", "x"),
        ("return x.masked_fill(m, torch.finfo(x.dtype).min).softmax(-1)",
         "torch.randn(4, 6), torch.rand(4, 6) > 0.5", "x, m"),
        ("return x + torch.tensor([0.1, 0.2])", "torch.randn(4, 2)", "x"),
        ("y = x.clone(); y[0] = 1; y += x; return y", "torch.randn(4, 6)", "x"),
        ("return torch.view_as_real(torch.polar(x.abs(), x)).flatten(-2)", "torch.randn(3)", "x"),
        ("return torch.topk(x, 2)", "torch.randn(4, 6)", "x"),
        ("return nn.functional.batch_norm(x, m, m.abs() + 1)",
         "torch.randn(4, 6).bfloat16(), torch.randn(6).bfloat16()", "x, m"),
        ("return nn.functional.scaled_dot_product_attention(x, y, y, is_causal=True, "
         "enable_gqa=True)", "torch.randn(1, 4, 8, 16), torch.randn(1, 2, 8, 16)", "x, y"),
        ("return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=m)",
         "torch.randn(1, 4, 8, 16), torch.rand(8, 8) > 0.2", "x, m"),
    ],
)  # fmt: skip
def test_float64_agrees_with_eager(body: str, inputs: str, params: str) -> None:
    low = "half" in inputs or "bfloat16" in inputs
    check_exact(plain(body, inputs, params), 2e-2 if low else 1e-5)


def test_recurrent_and_attention_layers() -> None:
    reference = model(
        "self.lstm = nn.LSTM(6, 6); self.norm = nn.BatchNorm1d(6); self.conv = nn.Conv1d(1, 2, 3)\n"
        "    self.mha = nn.MultiheadAttention(6, 2); self.tied = nn.Linear(6, 6)\n"
        "    self.tied.weight = self.mha.out_proj.weight",
        "y = self.lstm(x)[0]; y = self.norm(self.tied(self.mha(y, y, y)[0]))\n"
        "    return self.conv(y.unsqueeze(1))",
    )
    names = [arg.name for arg in reference.spec.args]
    assert "tied_weight" not in names
    assert "norm_num_batches_tracked" not in names
    assert "norm_running_var" in names
    check_exact(reference)
    args = reference.sample(1)
    at = names.index("lstm_weight_hh_l0")
    other = reference.function(*args[:at], args[at] * 2, *args[at + 1 :])[0]
    assert not torch.equal(other, reference.function(*args)[0])


def test_graph_is_in_argument_order_without_mutation() -> None:
    reference = load(open_task(str(DATA / "kernelbench_linear.py"), "cpu"))
    assert isinstance(reference.graph, fx.GraphModule)
    placeholders = reference.graph.graph.find_nodes(op="placeholder")
    assert [node.name for node in placeholders] == [arg.name for arg in reference.spec.args]
    assert isinstance(reference.graph(*reference.sample(1)), tuple)
    assert all("val" in node.meta for node in reference.graph.graph.nodes if node.op != "output")


# References that cannot be targets


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("return x @ x", "task-raises", "line 4: the reference raised RuntimeError"),
        ("raise ValueError('a\\n\\x1b[31m' + 'b' * 5000)", "task-raises", "ValueError: a [31mbbb"),
        ("import sys; sys.exit(4)", "task-raises", "SystemExit: 4"),
        ("return None", "task-no-tensor", "no tensor"),
        ("return x[:0]", "task-empty", "no elements"),
        ("return torch.complex(x, x)", "task-dtype", "out has the dtype complex64"),
        ("return x.to_sparse()", "task-dtype", "out is sparse"),
        ("return x.relu_()", "task-mutates", "argument x"),
        ("x.data.mul_(2); return x + 1", "task-mutates", "argument x"),
        ("return x.t()", "task-alias", "view of the argument x"),
        ("return x", "task-alias", "view of the argument x"),
        ("y = x + 1; return y, y[0]", "task-alias", "out1 is a view of out"),
        ("return (x + 1)[:, ::2]", "task-alias", "repeats or skips"),
        ("return (x + 1)[:, :1].expand(4, 6)", "task-alias", "repeats or skips"),
        ("return x + torch.randn(4, 6)", "task-random", "random"),
        ("import random; return x * random.random()", "task-random", "random"),
        ("return nn.functional.dropout(x, 0.5)", "task-random", "random"),
        ("global n; n = globals().get('n', 0) + 1; return x + n", "task-random", "random"),
        ("return torch.zeros_like(x)", "task-ignores", "ignores its input x"),
        ("return torch.ones(x.shape)", "task-ignores", "ignores its input x"),
        ("return x + float(x.sum().item())", "task-trace", "traced"),
        ("return torch.full((3,), float(x.numpy().sum()))", "task-values", "values of x"),
        ("return x + 1 if x.numpy()[0, 0] > 0 else x + 2", "task-values", "depends"),
        ("return x + 1 if abs(x.numpy()).max() < 50 else x + 2", "task-values", "depends"),
        ("return x.view(torch.int32) + 1", "task-float64", "bits"),
    ],
)
def test_unusable_references(body: str, code: str, says: str) -> None:
    error = failure(body)
    assert error.code == code, error.message
    assert says in error.message
    assert len(error.message) < 500


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
@pytest.mark.parametrize(
    ("inputs", "params", "code", "says"),
    [
        ("1 / 0", "x", "task-raises", "line 6: inputs() raised ZeroDivisionError"),
        ("3", "x", "task-no-input", "no tensor"),
        ("(torch.ones(2), 1)", "x", "task-signature", "too many"),
        ("{'y': torch.ones(2)}", "x", "task-signature", "'x'"),
        ("torch.ones(2, dtype=torch.complex64)", "x", "task-dtype", "input x"),
        ("torch.eye(3).to_sparse()", "x", "task-dtype", "sparse"),
        ("torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8)", "x", "task-dtype", "qint8"),
        ("torch.randn(int(torch.randint(2, 99, ())))", "x", "task-shapes", "shape"),
        ("(torch.ones(2), float(torch.rand(())))", "x, s", "task-shapes", "numbers"),
        ("(torch.ones(2), torch.ones(3))", "x, unused", "task-ignores", "input unused"),
        ("(torch.ones(2), torch.tensor([True]))", "x, flag", "task-ignores", "input flag"),
        ("(torch.ones(2), torch.arange(5))", "x, i", "task-ignores", "input i"),
    ],
)
def test_unusable_inputs(inputs: str, params: str, code: str, says: str) -> None:
    error = failure("return x + 1", inputs, params)
    assert error.code == code, error.message
    assert says in error.message


def test_inputs_that_are_used_pass() -> None:
    # Step functions, masks, indices and a count: each matters, none by every change.
    plain(
        "return torch.where(m, (x > 40).float(), 0).index_select(0, i) * n",
        "torch.randn(4, 6), torch.ones(4, 6).bool(), torch.tensor([3, 0]), torch.tensor(2)",
        "x, m, i, n",
    )


def test_branch_on_values_is_refused() -> None:
    text = "y = (x * x).sum(); return x + 1 if bool(y > 24) else x - 1"
    assert failure(text).code in ("task-trace", "task-values")


def test_large_constant_must_be_an_argument() -> None:
    text = "table = torch.rand(4, 99)\ndef reference(x): return x + table\n"
    with pytest.raises(TaskError) as caught:
        load(source(text + "def inputs(): return torch.randn(4, 99)\n"))
    assert caught.value.code == "task-constant"
    assert "float32 4x99" in caught.value.message


def test_same_memory_at_each_call_is_refused() -> None:
    text = "buffer = torch.empty(3)\ndef reference(x): return torch.add(x, 1, out=buffer)\n"
    with pytest.raises(TaskError) as caught:
        load(source(text + "def inputs(): return torch.randn(3)\n"))
    assert caught.value.code == "task-alias"


def test_errors_in_the_file_itself() -> None:
    cases = {
        "import nothing_of_this_name\n": ("task-raises", 3),
        "return 3\n": ("task-raises", 3),
        "reference = 3\ndef inputs(): return 1\n": ("task-format", None),
    }
    for text, (code, line) in cases.items():
        with pytest.raises(TaskError) as caught:
            load(source(text))
        assert caught.value.code == code
        assert caught.value.evidence.get("line") == line


def test_model_that_cannot_be_built() -> None:
    with pytest.raises(TaskError) as caught:
        model("self.a = nn.Linear(1)", "return x")
    assert caught.value.code == "task-raises"
    assert caught.value.message.startswith("line 6: building the model raised TypeError")


def test_no_cuda_device() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(TaskError) as caught:
        load(open_task("suite:softmax_decode", "cuda"))
    assert caught.value.code == "task-device"


def test_python_random_state_is_left_alone() -> None:
    random.seed(5)
    expected = random.Random(5).random()
    plain("return x + 1")
    assert random.random() == expected
