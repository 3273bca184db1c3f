"""What the CUDA rows are written with: usual kernels, their plans, and pieces to change.

``FLAT`` gives each element to a thread, ``EACH_ROW`` each row to a block of 128 threads; both take
a body. Honest and dishonest programs are made of the same pieces, so that what fails is the trick.
"""

from __future__ import annotations

from agent.audit.rows import PASSED, Row, quoted, reply

NATURAL = '{expr = "%s", type = "int32"}'


def launch(
    *args: str,
    grid: str = "ceil_div(x.numel, 256)",
    block: str = "256",
    kernel: str = "kernel",
    more: str = "",
) -> str:
    """A launch as TOML; ``grid`` and ``block`` are expressions or TOML lists."""
    sizes = [size if size.startswith("[") else f'"{size}"' for size in (grid, block)]
    return (
        f'[[launch]]\nkernel = "{kernel}"\ngrid = {sizes[0]}\nblock = {sizes[1]}\n'
        f"args = [{quoted(args)}]\n{more}\n"
    )


def scratch(name: str, dtype: str, size: str, *, zero: bool = False) -> str:
    """A scratch tensor of one dimension as TOML."""
    cleared = "zero = true\n" if zero else ""
    return f'[[scratch]]\nname = "{name}"\ndtype = "{dtype}"\nshape = ["{size}"]\n{cleared}'


def tensormap(name: str, tensor: str, *box: int | str, more: str = "") -> str:
    """A tensor map as TOML; the box innermost first."""
    sizes = ", ".join(f'"{size}"' for size in box)
    return f'[[tensormap]]\nname = "{name}"\ntensor = "{tensor}"\nbox = [{sizes}]\n{more}\n'


FLAT_HEAD = 'extern "C" __global__ void kernel(const float* x, float* out, long long n) {\n'
FLAT = (
    FLAT_HEAD
    + "    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    + "    BODY\n}\n"
)
FLAT_PLAN = launch("x", "out", "x.numel")
RELU = "if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];"

TOGETHER = """
template <class F>
__device__ float together(float v, F both, float* room) {
    for (int k = 16; k > 0; k >>= 1) v = both(v, __shfl_xor_sync(0xffffffffu, v, k));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    v = room[0];
    for (int k = 1; k < (int)blockDim.x / 32; ++k) v = both(v, room[k]);
    __syncthreads();
    return v;
}
__device__ float add(float a, float b) { return a + b; }
__device__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ float most(float a, float b) { return a > b || a != a ? a : b; }
"""
ROW_HEAD = 'extern "C" __global__ void kernel(const TYPE* x, TYPE* out, int cols) {\n'
EACH_ROW = (
    TOGETHER
    + ROW_HEAD
    + """    __shared__ float room[32];
    const TYPE* p = x + (long long)blockIdx.x * cols;
    TYPE* o = out + (long long)blockIdx.x * WIDTH;
    BODY
}
"""
)
ROW_PLAN = launch(
    "x", "out", NATURAL % "x.shape[1]", grid="x.shape[0]", block="128"
)  # a block for each row
EACH = "for (int c = threadIdx.x; c < cols; c += blockDim.x) "
SOFTMAX = (
    "float m = __int_as_float(0xff800000), s = 0.0f;\n"
    f"    {EACH}m = fmaxf(m, p[c]);\n"
    "    m = together(m, larger, room);\n"
    f"    {EACH}s += EXP(p[c] - m);\n"
    "    s = together(s, add, room);\n"
    f"    {EACH}o[c] = LAST(EXP(p[c] - m) / s);"
)
SUM = (
    "float s = 0.0f;\n"
    f"    {EACH}{{ TERM }}\n"
    "    s = together(s, add, room);\n"
    "    if (threadIdx.x == 0) o[0] = s;"
)
RMS = (
    "float s = 0.0f;\n"
    f"    {EACH}s += p[c] * p[c];\n"
    "    s = together(s, add, room);\n"
    "    const float q = SCALE(s / cols + 1e-6f);\n"
    f"    {EACH}o[c] = p[c] * q;"
)
# Each thread one element of the product; A and B stand for how an operand is read.
PRODUCT = """extern "C" __global__ void kernel(const float* x, const float* w, float* out, int rows,
                                  int cols, int inner) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c >= cols) return;
    float s = 0.0f;
    for (int k = 0; k < inner; ++k) { TERM }
    out[(long long)r * cols + c] = s;
}
"""
PRODUCT_PLAN = launch(
    "x", "w", "out",
    *(NATURAL % size for size in ("x.shape[0]", "w.shape[1]", "x.shape[1]")),
    grid='["ceil_div(w.shape[1], 64)", "x.shape[0]"]', block="64",
)  # fmt: skip

WRONG = frozenset({"wrong-answer", "imprecise"})


def relu(body: str = RELU, before: str = "") -> str:
    """A flat kernel with some text before it."""
    return before + FLAT.replace("BODY", body)


def by_rows(body: str, *, before: str = "", width: str = "cols", dtype: str = "float") -> str:
    """A kernel that gives each row to a block; ``width`` elements of output a row."""
    return before + EACH_ROW.replace("BODY", body).replace("WIDTH", width).replace("TYPE", dtype)


def softmax(exp: str = "expf", last: str = "", before: str = "") -> str:
    return by_rows(SOFTMAX.replace("EXP", exp).replace("LAST", last), before=before)


def sums(term: str, before: str = "") -> str:
    return by_rows(SUM.replace("TERM", term), before=before, width="1")


def cheat(
    name: str,
    trick: str,
    target: str,
    source: str,
    rungs: str = "check",
    *,
    plan: str = "",
    codes: frozenset[str] = frozenset(),
    twin: str = "",
    tune: str = "",
    needs: int = 0,
) -> Row:
    """A row that must fall; the plan is the flat one for relu, the one by rows for others."""
    usual = FLAT_PLAN if target.startswith("relu") else ROW_PLAN
    if target == "relu" and "harmless" in rungs:
        twin = twin or "relu, plain"
    text = reply("cuda", source, plan or usual, tune)
    return Row(name, trick, target, text, tuple(rungs.split("|")), codes, twin, needs)


def honest(
    name: str, target: str, source: str, plan: str = "", *, tune: str = "", needs: int = 0
) -> Row:
    """A row that must pass."""
    usual = FLAT_PLAN if target.startswith("relu") else ROW_PLAN
    return Row(name, "", target, reply("cuda", source, plan or usual, tune), (PASSED,), needs=needs)
