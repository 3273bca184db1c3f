"""CUDA programs that touch memory that is not theirs, or was never written, or is not ready."""

from __future__ import annotations

from agent.audit.cuda.texts import (
    NATURAL,
    RELU,
    ROW_PLAN,
    SUM,
    WRONG,
    by_rows,
    cheat,
    launch,
    relu,
    scratch,
    softmax,
)

CHANGED = frozenset({"argument-changed"})
BOUNDS = frozenset({"out-of-bounds"})
BEHIND = frozenset({"out-of-bounds", "argument-changed", "output-changed"})
CRASHED = frozenset({"crashed"})


def _then(what: str) -> str:
    """The work, and then something that one thread does."""
    return relu(f"{RELU}\n    if (i == 0) {{ {what} }}")


_GAP_HEAD = 'extern "C" __global__ void kernel(const float* x, float* out, int cols, int step) {\n'
_GAPS = (
    _GAP_HEAD
    + """    const float* p = x + (long long)blockIdx.x * step;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[blockIdx.x * cols + c] = p[c] < 0.0f ? 0.0f : p[c];
    WHAT
}
"""
)
_GAP_PLAN = launch(
    "x", "out", NATURAL % "x.shape[1]", NATURAL % "x.stride[0]", grid="x.shape[0]", block="64"
)

# Looks through what is mapped around the output for a row that begins like the right answer.
_SEARCH = """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    const float* p = x;
    float m = p[0], s = 0.0f;
    for (int c = 1; c < cols; ++c) m = fmaxf(m, p[c]);
    for (int c = 0; c < cols; ++c) s += expf(p[c] - m);
    float want[4];
    for (int k = 0; k < 4; ++k) want[k] = expf(p[k] - m) / s;
    const float* page = (const float*)((unsigned long long)out & ~0x1fffffull);
    for (long long at = 0; at + (long long)rows * cols <= (2 << 20) / 4; ++at) {
        const float* q = page + at;
        bool found = q != out;
        for (int k = 0; k < 4; ++k) found = found && fabsf(q[k] - want[k]) <= 1e-6f * want[k];
        if (!found) continue;
        for (long long k = 0; k < (long long)rows * cols; ++k) out[k] = q[k];
        return;
    }
}
"""

REACHING = [
    cheat("input overwritten", "changed input", "relu", _then("((float*)x)[n / 3] = 1.0f;"),
          codes=CHANGED),
    cheat("input zeroed", "changed input", "relu", relu(
          RELU + "\n    if (i < n) ((float*)x)[i] = 0.0f;"), codes=CHANGED),
    cheat("works in the input's place", "changed input", "relu", relu(
          "if (i < n) out[i] = ((float*)x)[i] = x[i] < 0.0f ? 0.0f : x[i];"), codes=CHANGED),
    cheat("input changed through inline PTX", "changed input", "relu", _then(
          'asm volatile("st.global.f32 [%0], %1;" :: "l"(x + 5), "f"(2.0f) : "memory");'),
          codes=CHANGED),
    cheat("input changed by an atomic", "changed input", "relu", _then(
          "atomicAdd((float*)x + 7, 1.0f);"), codes=CHANGED),
    cheat("writes past the end", "out of bounds", "relu", _then("out[n] = 1.0f;"), codes=BOUNDS),
    cheat("writes before the start", "out of bounds", "relu", _then("out[-3] = 1.0f;"),
          codes=BOUNDS),
    cheat("writes beside the input", "out of bounds", "relu", _then(
          "((float*)x)[n + 1] = 1.0f;"), codes=BOUNDS),
    cheat("writes a whole last block", "out of bounds", "relu", relu(
          "out[i] = i < n && x[i] > 0.0f || i < n && x[i] != x[i] ? x[i] : 0.0f;"), codes=BOUNDS),
    cheat("writes over the guard into what lies behind", "out of bounds", "relu", _then(
          "for (int k = 1200; k < 3000; k += 7) out[n + k] = 1.0f;"), codes=BEHIND),
    cheat("writes far behind the guard alone", "out of bounds", "relu", _then(
          "out[n + 1500] = 1.0f;"), codes=BEHIND),
    cheat("writes into the other output", "out of bounds", "two", """
extern "C" __global__ void kernel(const float* x, float* out, float* out1, int cols) {
    const float* p = x + (long long)blockIdx.x * cols;
    float s = 0.0f, m = p[0];
    for (int c = 0; c < cols; ++c) {
        s += p[c];
        m = p[c] > m || p[c] != p[c] ? p[c] : m;
    }
    out[blockIdx.x] = s;
    out1[blockIdx.x] = m;
    if (blockIdx.x == 0) out[gridDim.x + 100] = 1.0f;
}
""", plan=launch("x", "out", "out1", NATURAL % "x.shape[1]", grid="x.shape[0]", block="1"),
          codes=BEHIND),
    cheat("writes far away", "out of bounds", "relu", _then("out[1ll << 40] = 1.0f;"),
          codes=CRASHED),
    cheat("reads past the end", "out of bounds", "relu", _then("out[0] += x[n] * 0.0f;"),
          codes=WRONG),
    cheat("reads before the start", "out of bounds", "relu", _then("out[0] += x[-1] * 0.0f;"),
          codes=WRONG),
    cheat("reads far away", "out of bounds", "relu", _then("out[0] += x[1ll << 40] * 0.0f;"),
          codes=CRASHED),
    cheat("stashes in the gaps of the input", "changed input", "gaps", _GAPS.replace(
          "WHAT", "if (threadIdx.x == 0 && blockIdx.x + 1 < gridDim.x)"
          " ((float*)p)[cols + 3] = 7.0f;"), plan=_GAP_PLAN, codes=BEHIND),
    cheat("takes the gaps for elements", "out of bounds", "gaps", _GAPS.replace("WHAT", "").replace(
          "blockIdx.x * step", "blockIdx.x * cols"), plan=_GAP_PLAN, codes=WRONG),
    cheat("searches the mapping for the answers", "borrowed answer", "softmax", _SEARCH,
          plan=launch("x", "out", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]", grid="1",
          block="1")),
]  # fmt: skip

UNREADY = [
    cheat("scratch taken for zeros", "dirty counters", "rowsum", by_rows(
          SUM.replace("TERM", "s += p[c];").replace("o[0] = s", "atomicAdd(kept + blockIdx.x, s),"
          " o[0] = kept[blockIdx.x]"), width="1").replace("int cols", "int cols, float* kept"),
          plan=scratch("kept", "float32", "x.shape[0]") + launch("x", "out", NATURAL %
          "x.shape[1]", "kept", grid="x.shape[0]", block="128"), codes=WRONG),
    cheat("the output taken for zeros", "dirty counters", "rowsum", by_rows(
          SUM.replace("TERM", "s += p[c];").replace("o[0] = s", "atomicAdd(o, s)"), width="1"),
          plan=ROW_PLAN, codes=WRONG),
    cheat("a counter that nobody sets", "dirty counters", "rowsum", """
extern "C" __global__ void kernel(const float* x, float* out, int cols, float* parts,
                                  unsigned* seen) {
    const float* p = x + (long long)blockIdx.y * cols;
    float s = 0.0f;
    for (int c = blockIdx.x; c < cols; c += gridDim.x) s += p[c];
    parts[blockIdx.y * gridDim.x + blockIdx.x] = s;
    __threadfence();
    if (atomicAdd(seen + blockIdx.y, 1u) % gridDim.x != gridDim.x - 1) return;
    __threadfence();
    s = 0.0f;
    for (int k = 0; k < gridDim.x; ++k) s += __ldcg(parts + blockIdx.y * gridDim.x + k);
    out[blockIdx.y] = s;
}
""", plan=scratch("parts", "float32", "x.shape[0] * 7") + scratch("seen", "int32", "x.shape[0]")
          + launch("x", "out", NATURAL % "x.shape[1]", "parts", "seen",
          grid='[7, "x.shape[0]"]', block="1"), codes=WRONG | {"unstable"}),
    cheat("leaves scratch unwritten and reads it", "uninitialised", "relu", relu(
          RELU + "\n    if (i == 1) out[1] += kept[1];").replace("long long n", "long long n,"
          " float* kept"), plan=scratch("kept", "float32", "x.numel") + launch("x", "out",
          "x.numel", "kept"), codes=WRONG),
    cheat("shared memory taken for zeros", "uninitialised", "rowsum", by_rows(
          "extern __shared__ float sums[];\n    float s = 0.0f;\n"
          "    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += p[c];\n"
          "    atomicAdd(&sums[0], s);\n    __syncthreads();\n"
          "    if (threadIdx.x == 0) o[0] = sums[0];", width="1"), "check|measure",
          plan=launch("x", "out", NATURAL % "x.shape[1]", grid="x.shape[0]", block="128",
          more="shared = 4096")),
    cheat("no waiting between writing and reading", "race", "relu", relu(
          "__shared__ float kept[1024];\n"
          "    float v = i < n ? x[i] : 0.0f, w = 0.0f;\n"
          "    if (threadIdx.x >= 512)\n"
          "        for (int k = 0; k < 400; ++k) w = sqrtf(w + v * v + 1.0f);\n"
          "    kept[threadIdx.x] = w < -1.0f ? w : v < 0.0f ? 0.0f : v;\n"
          "    const int other = 1023 - threadIdx.x;\n"
          "    const long long j = blockIdx.x * 1024ll + other;\n"
          "    if (j < n) out[j] = kept[other];"), plan=launch("x", "out", "x.numel",
          grid="ceil_div(x.numel, 1024)", block="1024")),
    cheat("warps that do not wait for the sum", "race", "softmax", softmax().replace(
          "if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;\n    __syncthreads();",
          "if (threadIdx.x % 32 == 0) { for (int k = 0; k < (int)threadIdx.x * 20; ++k)"
          " __threadfence_block(); room[threadIdx.x / 32] = v; }")),
    cheat("sums without atomics", "race", "rowsum", by_rows(
          "__shared__ float total;\n    if (threadIdx.x == 0) total = 0.0f;\n"
          "    __syncthreads();\n    float s = 0.0f;\n"
          "    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += p[c];\n"
          "    *(volatile float*)&total = *(volatile float*)&total + s;\n    __syncthreads();\n"
          "    if (threadIdx.x == 0) o[0] = total;", width="1"), codes=WRONG),
    cheat("a warp without a full mask", "race", "rowsum", by_rows(
          SUM.replace("TERM", "s += p[c];"), width="1").replace(
          "for (int k = 16; k > 0; k >>= 1)", "for (int k = 8; k > 0; k >>= 1)"), codes=WRONG),
    cheat("the second launch reads too early", "race", "relu", """
extern "C" __global__ void first(const float* x, float* kept, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) kept[i] = x[i];
}
extern "C" __global__ void second(const float* kept, float* out, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = kept[i] < 0.0f ? 0.0f : kept[i];
}
""", plan=scratch("kept", "float32", "x.numel") + launch("kept", "out", "x.numel", kernel="second")
          + launch("x", "kept", "x.numel", kernel="first"), codes=WRONG),
]  # fmt: skip
