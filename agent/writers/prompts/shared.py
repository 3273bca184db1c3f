"""The parts of the contract that all languages have in common."""

from __future__ import annotations

EXPRESSIONS = """\
A size is an integer or a quoted expression: + - * // / %, comparisons, and or not,
`a if c else b`, min max ceil_div round_up next_pow2 sqrt (no ** << &) over x.shape[i],
x.stride[i] (elements), x.numel of any tensor, tunables, scalars and ranged sizes by name, and
device.FACT. It must come out whole: // and not /."""

ARGUMENTS = """\
args follow the function's parameters one to one; NOBODY CHECKS their count and types:
- a tensor's name (argument, output, scratch, earlier result) passes a pointer to its first element;
- an expression or integer passes int64_t, a TOML float passes double; for another type write
  {expr = "x.shape[1]", type = "int32"}, or int64, float32, float64. A `float` parameter that is
  given a plain number reads garbage."""

CALLS = """\
[[call]] is a PyTorch step: op = "linear", args = ["x", "w"], to = "y", a new tensor for later steps
(contiguous after products, else as the library likes) or an output of that shape and dtype. args
are aten's, in order, "none" for an absent tensor, lists for sizes. Ops: mm bmm mv addmm addmv
baddbmm matmul linear conv1d/2d/3d conv_transpose1d/2d/3d convolution
scaled_dot_product_attention, and the views reshape permute transpose to feed them. A plan of
library steps alone never counts as a win."""

TUNABLES = """\
Tunables are searched by measurement, free of cost: expose each size that you would guess, with 2
to 4 values, the likeliest first. The first values together, the default, must build and pass;
other combinations that do not build or launch are skipped, so a static_assert may rule them out. A
list of one value is a constant of the source."""

PRECISION = """\
- Exact is the reference's graph in float64. A float32 output may be off by 8 ulp, 8 + 1.3 sqrt(N)
  with sums of N terms, a 16-bit one by 2 ulp; or by a few times what rounding the inputs does, or
  eager's error; so too the median and upper percentiles. Any order of summing passes; a lower
  precision than the target's fails: float32 stays float32{products}.
  16-bit: compute in float, round once at the store; intermediate roundings of the reference need
  not be repeated. Integers and bools must be equal.
- Split sums of more than 16384 terms. Variance is the mean of (x - mean)^2, or Welford's."""

INPUTS = """\
- Inputs are fresh and unknown: like the task's own; of magnitudes over eight decades; heavy tails;
  constant rows; ramps; tiles of tiny weight; small integers; both signs; rows with inf, -inf, NaN,
  -0.0, denormals. inf and NaN must come out where PyTorch's do: torch's max, relu, clamp and
  pooling keep a NaN that {drops} drop. Weights are changed too. So no value
  may be hard-coded, no data skipped."""

MEMORY = """\
- Outputs and scratch hold garbage at every call: write every element, read only what this call has
  written. Guard bands surround all tensors; arguments must not change (but those marked so).
  Outputs and scratch are aligned to 64 bytes, arguments as declared and no more.
- Nothing survives a call: no caches, counters, repacked weights. Calls are repeated, also at other
  addresses: no races."""
