"""CUDA programs by what they use, with the oldest architecture that has it."""

from __future__ import annotations

PLAIN = """
extern "C" __global__ void kernel(const float4* __restrict__ x, float4* out, int64_t n) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i];
    v.x = std::max(v.x, 0.0f) * SCALE; v.y = fmaxf(v.y, -INFINITY); v.z = std::exp(v.z);
    v.w = v.w > FLT_MAX ? std::numeric_limits<float>::lowest() : std::min(v.w, float(INT_MAX));
    out[i] = v;
}
"""

HABITS = """
#include <cuda.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <stdint.h>
#include <cstdint>
#include <cmath>
#include "math.h"
#include <float.h>
#include <cfloat>
#include <limits>
#include <climits>
#include <type_traits>
#include <algorithm>
#include <utility>
#include <cstddef>
#include <cassert>
#include <cstdio>
#define WARP 32
#define CEIL(a, b) (((a) + (b) - 1) / (b))
struct Pair { float value; int index; };
float helper(float v) { return std::fabs(v) + std::sqrt(v) + std::pow(v, 2.0f) + tanhf(v); }
static inline int wide(uint32_t v) { return int(v >> 16); }
template <typename T, int N> __device__ __forceinline__ T total(const T (&items)[N]) {
    T sum = T(0);
    #pragma unroll
    for (int i = 0; i < N; ++i) sum += items[i];
    return sum;
}
template <typename T> struct Traits { static constexpr T low = std::numeric_limits<T>::lowest(); };
static constexpr float TABLE[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__constant__ int WEIGHTS[4] = {4, 3, 2, 1};
static_assert(std::is_same<uint8_t, unsigned char>::value && std::is_same_v<int64_t, long long>);
static_assert(std::is_integral_v<unsigned short> && !std::is_floating_point<int>::value);
static_assert(std::numeric_limits<uint32_t>::max() == UINT32_MAX && sizeof(size_t) == 8);
static_assert(std::numeric_limits<int64_t>::min() == INT64_MIN && std::numeric_limits<bool>::max());
static_assert(std::numeric_limits<int8_t>::lowest() == INT8_MIN);
static_assert(std::numeric_limits<double>::max() == DBL_MAX && std::is_unsigned_v<size_t>);
static_assert(std::numeric_limits<float>::lowest() == -FLT_MAX && FLT_MIN > 0);
static_assert(std::numeric_limits<float>::infinity() > FLT_MAX && M_PI > 3.14);
static_assert(std::is_same_v<std::conditional_t<(WARP > 4), float, int>, float>);
__global__ void __launch_bounds__(128) kernel(float* x, const int* index, int rows, int cols) {
    __shared__ float kept[128];
    assert(rows > 0);
    const int i = threadIdx.x;
    float items[4] = {x[i], helper(x[i]), TABLE[i & 7], float(WEIGHTS[i & 3])};
    kept[i] = total(items) + Traits<float>::low * 0 + float(wide(i)) + cols * EXTRA;
    __syncthreads();
    std::swap(items[0], items[1]);
    Pair pair{kept[(i + 1) % 128], min(i, rows)};
    double d = std::max<double>(pair.value, 1e-3) + DBL_MAX * 0 + isnan(pair.value);
    if (std::isinf(float(d))) d = NAN;
    atomicAdd(&x[CEIL(i, 2)], float(d) + std::clamp(items[0], 0.f, 1.f) + __ldg(index + i));
}
"""

HALVES = """
#include <cuda_fp16.h>
#include "cuda_bf16.h"
#include <cuda_fp8.h>
extern "C" __global__ void kernel(const __nv_bfloat16* x, __half* out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n / 2) return;
    __nv_bfloat162 v = reinterpret_cast<const __nv_bfloat162*>(x)[i];
    __half2 h = __floats2half2_rn(__bfloat162float(v.x), __high2float(v));
    __nv_fp8_e4m3 f(1.5f);
    reinterpret_cast<__half2*>(out)[i] = __hadd2(__hmul2(h, h), __float2half2_rn(float(f)));
}
"""

TENSOR_CORES = """
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void kernel(const half* a, const half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
    unsigned ra[4] = {1, 2, 3, 4}, rb[2] = {1, 2};
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7},"
                 " {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    c[threadIdx.x] += d[0];
}
"""

COPY_ASYNC = """
extern __shared__ __align__(16) unsigned char shared[];
extern "C" __global__ void kernel(const float* x, float* out, int stages) {
    float* tile = reinterpret_cast<float*>(shared);
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x * 4));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(x + threadIdx.x * 4));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" :: "n"(0));
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ (stages * STAGES)];
}
"""

HOPPER = """
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(256)
kernel(const __grid_constant__ CUtensorMap map, float* out) {
    __shared__ alignas(128) half tile[64 * 64];
    __shared__ alignas(8) uint64_t barrier;
    uint32_t bar = (uint32_t)__cvta_generic_to_shared(&barrier);
    uint32_t dst = (uint32_t)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(bar), "r"(8192));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(dst), "l"(&map), "r"(0), "r"(0), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{\\n.reg .pred done;\\nwait:\\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\\n@!done bra wait;\\n}"
                 :: "r"(bar) : "memory");
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[4] = {};
        uint64_t desc = (uint64_t)((dst & 0x3FFFF) >> 4) | (uint64_t(1) << 62);
        asm volatile("wgmma.fence.sync.aligned;");
        asm volatile("{wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5,"
                     " 1, 1, 1, 0, 0;}"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(desc), "l"(desc));
        asm volatile("wgmma.commit_group.sync.aligned;");
        asm volatile("wgmma.wait_group.sync.aligned 0;");
        out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
    }
}
"""

CLUSTERS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void kernel(float* out) {
    __shared__ float mine;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = blockIdx.x;
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    float* theirs = cluster.map_shared_rank(&mine, next);
    if (threadIdx.x == 0) out[blockIdx.x] = *theirs;
    cluster.sync();
}
"""

LIBRARY = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>
#include <cuda/std/cmath>
#include <cuda/std/limits>
#include <cuda/barrier>
namespace cg = cooperative_groups;
extern "C" __global__ void kernel(const float* x, float* out, int n) {
    using Reduce = cub::BlockReduce<float, BLOCK_THREADS>;
    __shared__ typename Reduce::TempStorage kept;
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    cg::grid_group grid = cg::this_grid();
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    float v = threadIdx.x < n ? x[threadIdx.x] : -cuda::std::numeric_limits<float>::infinity();
    float sum = Reduce(kept).Sum(cuda::std::exp(v));
    barrier.arrive_and_wait();
    sum += cg::reduce(warp, v, cg::plus<float>());
    grid.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
"""

# name: text, tunables, oldest architecture; "90a" means that it runs on Hopper alone.
PROGRAMS: dict[str, tuple[str, dict[str, int], str]] = {
    "plain": (PLAIN, {"SCALE": 2}, "80"),
    "habits": (HABITS, {"EXTRA": 5}, "80"),
    "halves": (HALVES, {}, "80"),
    "tensor cores": (TENSOR_CORES, {}, "80"),
    "cp.async": (COPY_ASYNC, {"STAGES": 2}, "80"),
    "wgmma, TMA": (HOPPER, {}, "90a"),
    "clusters": (CLUSTERS, {}, "90"),
    "cub, cooperative groups": (LIBRARY, {"BLOCK_THREADS": 256, "T": 4, "N": 1}, "80"),
}
