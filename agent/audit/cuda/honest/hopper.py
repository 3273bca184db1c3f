"""Right CUDA programs with what compute capability 9.0 brought: clusters, bulk copies, barriers."""

from __future__ import annotations

from agent.audit.cuda.texts import NATURAL, TOGETHER, honest, launch, tensormap

BARRIERS = """
__device__ __forceinline__ unsigned inside(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void set_up(unsigned long long* bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(inside(bar)), "r"(count));
}
__device__ __forceinline__ void expect(unsigned long long* bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(inside(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(unsigned long long* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(inside(bar)) : "memory");
}
__device__ __forceinline__ void wait(unsigned long long* bar, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(inside(bar)), "r"(parity) : "memory");
}
"""
# Four blocks share a row; each looks into the shared memory of the others.
_CLUSTER = (
    TOGETHER
    + """
__device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ float of_block(const float* p, unsigned block) {
    unsigned far;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(far) : "r"((unsigned)__cvta_generic_to_shared(p)), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(far) : "memory");
    return v;
}
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    __shared__ float room[32], mine[2];
    const int rank = blockIdx.x % 4, part = (cols + 3) / 4;
    const int first = rank * part, last = min(cols, first + part);
    const float* p = x + (long long)(blockIdx.x / 4) * cols;
    float m = __int_as_float(0xff800000), s = 0.0f;
    for (int c = first + threadIdx.x; c < last; c += blockDim.x) m = fmaxf(m, p[c]);
    m = together(m, larger, room);
    if (threadIdx.x == 0) mine[0] = m;
    meet();
    for (int k = 0; k < 4; ++k) m = fmaxf(m, of_block(mine, k));
    for (int c = first + threadIdx.x; c < last; c += blockDim.x) s += expf(p[c] - m);
    s = together(s, add, room);
    if (threadIdx.x == 0) mine[1] = s;
    meet();
    s = 0.0f;
    for (int k = 0; k < 4; ++k) s += of_block(mine + 1, k);
    for (int c = first + threadIdx.x; c < last; c += blockDim.x)
        out[(long long)(blockIdx.x / 4) * cols + c] = expf(p[c] - m) / s;
    meet();
}
"""
)
# A box of 32 columns and 8 rows comes by the bulk copy engine and goes back the same way.
_BOXES = (
    BARRIERS
    + """
extern "C" __global__ void kernel(const __grid_constant__ CUtensorMap in,
                                  const __grid_constant__ CUtensorMap back) {
    __shared__ alignas(128) float tile[8][32];
    __shared__ alignas(8) unsigned long long bar;
    const int c = blockIdx.x * 32, r = blockIdx.y * 8;
    if (threadIdx.x == 0) {
        set_up(&bar, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        expect(&bar, 1024);
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %3}], [%4];"
            :: "r"(inside(tile)), "l"(&in), "r"(c), "r"(r), "r"(inside(&bar)) : "memory");
    }
    __syncthreads();
    wait(&bar, 0);
    float* v = &tile[threadIdx.x / 32][threadIdx.x % 32];
    *v = *v < 0.0f ? 0.0f : *v;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                     " [%0, {%1, %2}], [%3];"
                     :: "l"(&back), "r"(c), "r"(r), "r"(inside(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
)
_BOXES_PLAN = (
    tensormap("source", "x", 32, 8)
    + tensormap("target", "out", 32, 8)
    + launch("source", "target", grid='["ceil_div(x.shape[1], 32)", "ceil_div(x.shape[0], 8)"]')
)
_TRANSPOSED = (
    BARRIERS
    + """
extern "C" __global__ void kernel(const __grid_constant__ CUtensorMap in, float* out, int rows,
                                  int cols) {
    __shared__ alignas(128) float tile[16][16];
    __shared__ alignas(8) unsigned long long bar;
    const int c = blockIdx.x * 16, r = blockIdx.y * 16;
    if (threadIdx.x == 0) {
        set_up(&bar, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        expect(&bar, 1024);
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %3}], [%4];"
            :: "r"(inside(tile)), "l"(&in), "r"(c), "r"(r), "r"(inside(&bar)) : "memory");
    }
    __syncthreads();
    wait(&bar, 0);
    const int to = r + threadIdx.x % 16, from = c + threadIdx.x / 16;
    if (to < rows && from < cols)
        out[from * rows + to] = tile[threadIdx.x % 16][threadIdx.x / 16];
}
"""
)
_TRANSPOSED_PLAN = tensormap("source", "x", 16, 16) + launch(
    "source", "out", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]",
    grid='["ceil_div(x.shape[1], 16)", "ceil_div(x.shape[0], 16)"]',
)  # fmt: skip
# One warp fetches rows by bulk copies into two places by turns, four warps work on them.
_SPECIALISED = (
    BARRIERS
    + """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    __shared__ alignas(128) float tile[2][512];
    __shared__ alignas(8) unsigned long long full[2], free[2];
    __shared__ float parts[4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int k = 0; k < 2; ++k) {
            set_up(full + k, 1);
            set_up(free + k, 128);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int turn = 0;
    if (warp == 4) {
        if (lane != 0) return;
        for (int r = blockIdx.x; r < rows; r += gridDim.x, ++turn) {
            const int k = turn % 2;
            if (turn >= 2) wait(free + k, (turn / 2 - 1) & 1);
            expect(full + k, cols * 4);
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%0], [%1], %2, [%3];"
                :: "r"(inside(tile[k])), "l"(x + (long long)r * cols), "r"(cols * 4),
                   "r"(inside(full + k)) : "memory");
        }
        return;
    }
    for (int r = blockIdx.x; r < rows; r += gridDim.x, ++turn) {
        const int k = turn % 2;
        wait(full + k, (turn / 2) & 1);
        float v[4], s = 0.0f;
        for (int j = 0; j < 4; ++j) {
            v[j] = tile[k][threadIdx.x + 128 * j];
            s += v[j] * v[j];
        }
        arrive(free + k);
        for (int j = 16; j > 0; j >>= 1) s += __shfl_xor_sync(0xffffffffu, s, j);
        if (lane == 0) parts[warp] = s;
        asm volatile("bar.sync 1, 128;" ::: "memory");
        s = (parts[0] + parts[1]) + (parts[2] + parts[3]);
        asm volatile("bar.sync 1, 128;" ::: "memory");
        const float q = rsqrtf(s / cols + 1e-6f);
        for (int j = 0; j < 4; ++j) out[(long long)r * cols + threadIdx.x + 128 * j] = v[j] * q;
    }
}
"""
)
_LIBRARY_BARRIER = """
#include <cuda/barrier>
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(16) float row[512];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier bar;
    __shared__ float total;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        total = 0.0f;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        cuda::memcpy_async(row + c, x + (long long)blockIdx.x * cols + c, sizeof(float), bar);
    bar.arrive_and_wait();
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += row[c] * row[c];
    atomicAdd(&total, s);
    __syncthreads();
    const float q = rsqrtf(total / cols + 1e-6f);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[(long long)blockIdx.x * cols + c] = row[c] * q;
}
"""
_SIZES = (NATURAL % "x.shape[0]", NATURAL % "x.shape[1]")

HOPPER = [
    honest("softmax by a cluster of blocks", "softmax", _CLUSTER, launch(
           "x", "out", _SIZES[1], grid="x.shape[0] * 4", block="64", more="cluster = 4"),
           needs=90),
    honest("relu of boxes by the bulk engine", "tiles", _BOXES, _BOXES_PLAN, needs=90),
    honest("transpose of boxes by the bulk engine", "transpose_even", _TRANSPOSED,
           _TRANSPOSED_PLAN, needs=90),
    honest("rms norm by warps of two kinds", "rms", _SPECIALISED, launch(
           "x", "out", *_SIZES, grid="min(device.sms, ceil_div(x.shape[0], 3))", block="160"),
           needs=90),
    honest("rms norm with a library's barrier", "rms", _LIBRARY_BARRIER, launch(
           "x", "out", _SIZES[1], grid="x.shape[0]", block="128"), needs=80),
]  # fmt: skip
