"""Right CUDA programs for products: plain, in tiles, pipelined, on tensor cores, by the library."""

from __future__ import annotations

from agent.audit.cuda.caches import DEEP, DEEP_PLAN
from agent.audit.cuda.coarse import MMA_PLAN
from agent.audit.cuda.texts import NATURAL, PRODUCT, PRODUCT_PLAN, honest, launch

_SIZES = [NATURAL % size for size in ("x.shape[0]", "w.shape[1]", "x.shape[1]")]
_TILES = """
extern "C" __global__ void kernel(const float* x, const float* w, float* out, int rows, int cols,
                                  int inner) {
    __shared__ float a[16][17], b[16][17];
    const int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    float s = 0.0f;
    for (int k = 0; k < inner; k += 16) {
        const int ka = k + threadIdx.x, kb = k + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = r < rows && ka < inner ? x[r * inner + ka] : 0.0f;
        b[threadIdx.y][threadIdx.x] = c < cols && kb < inner ? w[kb * cols + c] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int j = 0; j < 16; ++j) s += a[threadIdx.y][j] * b[j][threadIdx.x];
        __syncthreads();
    }
    if (r < rows && c < cols) out[r * cols + c] = s;
}
"""
# Two stages: while one tile is multiplied the next is on its way through cp.async.
_PIPELINE = """
__device__ __forceinline__ void fetch(float* to, const float* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::
                 "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
extern "C" __global__ void __launch_bounds__(64) kernel(const float* x, const float* w, float* out,
                                                        int cols, int inner) {
    __shared__ __align__(16) float a[2][32][8], b[2][8][32];
    const int t = threadIdx.x, r0 = blockIdx.y * 32, c0 = blockIdx.x * 32;
    const int ar = t / 2, ak = t % 2 * 4, bk = t / 8, bc = t % 8 * 4;
    const int r = t / 8 * 4, c = t % 8 * 4;
    float s[4][4] = {};
    const int tiles = inner / 8;
    fetch(&a[0][ar][ak], x + (r0 + ar) * inner + ak);
    fetch(&b[0][bk][bc], w + bk * cols + c0 + bc);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int k = 0; k < tiles; ++k) {
        const int now = k & 1, next = now ^ 1;
        if (k + 1 < tiles) {
            fetch(&a[next][ar][ak], x + (r0 + ar) * inner + (k + 1) * 8 + ak);
            fetch(&b[next][bk][bc], w + ((k + 1) * 8 + bk) * cols + c0 + bc);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int p = 0; p < 4; ++p)
                #pragma unroll
                for (int q = 0; q < 4; ++q) s[p][q] += a[now][r + p][j] * b[now][j][c + q];
        __syncthreads();
    }
    for (int p = 0; p < 4; ++p)
        for (int q = 0; q < 4; ++q) out[(r0 + r + p) * cols + c0 + c + q] = s[p][q];
}
"""
_WMMA = """
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                  __nv_bfloat16* out, int cols, int inner) {
    __shared__ __align__(32) float tile[256];
    const int r = blockIdx.y * 16, c = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
    wmma::fill_fragment(s, 0.0f);
    for (int k = 0; k < inner; k += 16) {
        wmma::load_matrix_sync(a, x + r * inner + k, inner);
        wmma::load_matrix_sync(b, w + k * cols + c, cols);
        wmma::mma_sync(s, a, b, s);
    }
    wmma::store_matrix_sync(tile, s, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        out[(r + i / 16) * cols + c + i % 16] = __float2bfloat16(tile[i]);
}
"""
_WMMA_PLAN = launch(
    "x", "w", "out", *_SIZES[1:], grid='["w.shape[1] // 16", "x.shape[0] // 16"]', block="32"
)
# A warp makes 16 rows of 8 columns; fragments as the PTX manual lays them out for m16n8k16.
_MMA = """
#include <cuda_bf16.h>
__device__ unsigned pair(__nv_bfloat16 low, __nv_bfloat16 high) {
    return (unsigned)__bfloat16_as_ushort(high) << 16 | __bfloat16_as_ushort(low);
}
extern "C" __global__ void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                  __nv_bfloat16* out, int rows, int cols, int inner) {
    const int group = threadIdx.x / 4, quad = threadIdx.x % 4 * 2;
    const int r = blockIdx.y * 16 + group, c = blockIdx.x * 8;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < inner; k += 16) {
        unsigned a[4], b[2];
        a[0] = *(const unsigned*)(x + r * inner + k + quad);
        a[1] = *(const unsigned*)(x + (r + 8) * inner + k + quad);
        a[2] = *(const unsigned*)(x + r * inner + k + quad + 8);
        a[3] = *(const unsigned*)(x + (r + 8) * inner + k + quad + 8);
        const __nv_bfloat16* q = w + (k + quad) * cols + c + group;
        b[0] = pair(q[0], q[cols]);
        b[1] = pair(q[8 * cols], q[9 * cols]);
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    __nv_bfloat16* o = out + r * cols + c + quad;
    o[0] = __float2bfloat16(d[0]);
    o[1] = __float2bfloat16(d[1]);
    o[8 * cols] = __float2bfloat16(d[2]);
    o[8 * cols + 1] = __float2bfloat16(d[3]);
}
"""
_EPILOGUE = """
extern "C" __global__ void kernel(const float* y, const float* b, float* out, int cols, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = y[i] + b[i % cols];
    out[i] = v < 0.0f ? 0.0f : v;
}
"""
_EPILOGUE_PLAN = (
    '[[call]]\nop = "mm"\nargs = ["x", "w"]\nto = "y"\n'
    + launch(
        "y", "b", "out", NATURAL % "w.shape[1]", NATURAL % "out.numel",
        grid="ceil_div(out.numel, 256)",
    )
)  # fmt: skip
_FUSED = PRODUCT.replace("const float* w,", "const float* w, const float* b,").replace(
    "TERM", "s += x[r * inner + k] * w[k * cols + c];"
).replace("= s;\n}", "= s + b[c] < 0.0f ? 0.0f : s + b[c];\n}")  # fmt: skip

PRODUCTS = [
    honest("product, a thread for each element", "product", PRODUCT.replace(
           "TERM", "s += x[r * inner + k] * w[k * cols + c];"), PRODUCT_PLAN),
    honest("deep product", "product_deep", DEEP, DEEP_PLAN),
    honest("product in tiles", "product", _TILES, launch(
           "x", "w", "out", *_SIZES, grid='["ceil_div(w.shape[1], 16)", "ceil_div(x.shape[0], 16)"'
           "]", block="[16, 16]")),
    honest("product through a pipeline", "product", _PIPELINE, launch(
           "x", "w", "out", *_SIZES[1:], grid='["w.shape[1] // 32", "x.shape[0] // 32"]',
           block="64"), needs=80),
    honest("product of bfloat16 by fragments", "product_bf16", _WMMA, _WMMA_PLAN, needs=80),
    honest("product of bfloat16 by instructions", "product_bf16", _MMA, MMA_PLAN, needs=80),
    honest("a library product and a kernel behind it", "product_relu", _EPILOGUE, _EPILOGUE_PLAN),
    honest("product and sum and relu in one", "product_relu", _FUSED, PRODUCT_PLAN.replace(
           '"w", "out"', '"w", "b", "out"')),
]  # fmt: skip
