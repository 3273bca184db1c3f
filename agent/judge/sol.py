"""Speed of light: what moving the same bytes takes here at best, timed like a candidate.

Our streaming kernel is built by the builder and timed in the runner exactly as a program is: same
calls, same allocation, same rotation of arguments. Its plain, non-temporal and single-threaded
forms are tried and the fastest counts. A target of products (matrix multiplication, convolution)
takes at least its operations at the best rate that ``torch.mm`` reaches here.

The floor only rejects: the same bytes at the rate at which all cores together read from their own
second-level caches, with a margin. No program that does the work can be faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from agent.task import TargetSpec

MARGIN = 0.7
PRODUCT_SIZE = 1024
# Up to this many bytes starting the other threads may cost more than they bring.
SMALL = 4 << 20

SOURCE = """
#include <cstdint>
#include <immintrin.h>
#include <omp.h>
typedef uint64_t vec __attribute__((vector_size(64), aligned(64), may_alias));

static inline void store(vec* place, vec value) {
#if STREAM && defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(place), reinterpret_cast<__m512i>(value));
#elif STREAM && defined(__AVX__)
    const __m256i* halves = reinterpret_cast<const __m256i*>(&value);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(place), halves[0]);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(place) + 1, halves[1]);
#else
    *place = value;
#endif
}

static void part(const vec* in, vec* out, int64_t reads, int64_t writes, int64_t at, int64_t of) {
    const int64_t both = reads < writes ? reads : writes;
    for (int64_t i = both * at / of; i < both * (at + 1) / of; ++i) store(out + i, in[i]);
    vec a = {}, b = {}, c = {}, d = {};
    const int64_t rest = reads - both, from = both + rest * at / of;
    const int64_t to = both + rest * (at + 1) / of;
    int64_t i = from;
    for (; i + 4 <= to; i += 4) {
        a ^= in[i];
        b ^= in[i + 1];
        c ^= in[i + 2];
        d ^= in[i + 3];
    }
    for (; i < to; ++i) a ^= in[i];
    a ^= b ^ c ^ d;
    const int64_t more = writes - both;
    for (i = both + more * at / of; i < both + more * (at + 1) / of; ++i) store(out + i, a);
    // Never true of random bytes, but the compiler must do the reading to know.
    if (rest && a[0] == 0x5bd1e995 && a[7] == 0x27d4eb2f) out[0] = a;
}

extern "C" void stream(const uint8_t* in, uint8_t* out, int64_t reads, int64_t writes) {
    const vec* source = reinterpret_cast<const vec*>(in);
    vec* target = reinterpret_cast<vec*>(out);
#if PARALLEL
#pragma omp parallel
    part(source, target, reads, writes, omp_get_thread_num(), omp_get_num_threads());
#else
    part(source, target, reads, writes, 0, 1);
#endif
}
"""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of the streaming kernel."""

    stream: int
    parallel: int

    @property
    def values(self) -> dict[str, int]:
        return {"STREAM": self.stream, "PARALLEL": self.parallel}

    @property
    def name(self) -> str:
        store = "non-temporal stores" if self.stream else "plain"
        return store if self.parallel else f"{store}, one thread"


class Records(Protocol):
    """Where measured figures are kept; ``store.machine.MachineStore`` is one."""

    def get(self, kind: str, machine: str, key: str) -> dict[str, Any] | None: ...
    def put(self, kind: str, machine: str, key: str, value: dict[str, Any]) -> None: ...


def forms(size: int) -> list[Form]:
    """The forms worth trying for so many bytes."""
    found = [Form(0, 1), Form(1, 1)]
    return [*found, Form(0, 0)] if size <= SMALL else found


def plan(reads: int, writes: int) -> dict[str, Any]:
    """The bound plan that moves so many bytes (whole vectors of 64)."""
    numbers = [{"type": "int64", "value": reads // 64}, {"type": "int64", "value": writes // 64}]
    args = [{"tensor": "in"}, {"tensor": "out"}, *numbers]
    return {
        "scratch": [],
        "tensormaps": [],
        "steps": [{"kernel": "stream", "args": args}],
        "neighbours": [],
    }


def product_dtype(spec: TargetSpec) -> str:
    """The dtype that products of the target are computed in: its first floating argument's."""
    return next((arg.dtype for arg in spec.args if "float" in arg.dtype), "float32")
