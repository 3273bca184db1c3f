"""The float functions that drafts carry along, against PyTorch in float64."""

from __future__ import annotations

import ctypes
import math
import subprocess
from typing import TYPE_CHECKING

import pytest
import torch

from agent.writers.drafter.cpp_math import HELPERS, helpers

from .harness import AS_BUILT

if TYPE_CHECKING:
    from pathlib import Path

# Units in the last place of the result.
BOUNDS = {"exp": 1.5, "log": 1.0, "expm1": 3.0, "log1p": 2.5, "tanh": 2.5, "erf": 3.0}
LOOP = """
extern "C" void {name}(const {source}* x, {to}* y, int64_t n) {{
#pragma omp simd simdlen(16)
  for (int64_t i = 0; i < n; ++i) y[i] = {call}(x[i]);
}}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("math")
    text = "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <immintrin.h>\n"
    text += helpers(set(HELPERS))
    for name in (*BOUNDS, "sigmoid"):
        text += LOOP.format(name=f"{name}_all", source="float", to="float", call=f"{name}_f32")
    for half in ("bf16", "f16"):
        text += LOOP.format(name=f"to_{half}_all", source="float", to="uint16_t", call=f"to_{half}")
        text += LOOP.format(
            name=f"from_{half}_all", source="uint16_t", to="float", call=f"from_{half}"
        )
    (folder / "math.cpp").write_text(text)
    flags = [flag for flag in AS_BUILT if flag != "-fvisibility=default"] + ["-Wno-unused-function"]
    command = ["g++", *flags, "-shared", str(folder / "math.cpp"), "-o", str(folder / "math.so")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[:2000]
    return ctypes.CDLL(str(folder / "math.so"))


def floats() -> torch.Tensor:
    """Every 4001st float of all, and the places where something happens."""
    steps = torch.arange(-(2**31), 2**31, 4001).to(torch.int32).view(torch.float32)
    edges = [0, 1, 88.72, 88.73, 103.9, 104.5, 1e-45, 2e-38, 0.99999994, math.inf, math.nan]
    edges += [65519, 65520]  # the largest that rounds to a finite half, the least that does not
    near = torch.randn(200_000, generator=torch.Generator().manual_seed(0)) * 3
    return torch.cat([steps, torch.tensor(edges), -torch.tensor(edges), near])


def run(library: ctypes.CDLL, name: str, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    y = torch.empty(len(x), dtype=dtype)
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, y)]
    getattr(library, name)(*pointers, ctypes.c_int64(len(x)))
    return y


@pytest.mark.parametrize("name", BOUNDS)
def test_error_in_units_of_the_last_place(library: ctypes.CDLL, name: str) -> None:
    x = floats()
    got = run(library, f"{name}_all", x, torch.float32)
    exact = getattr(torch, name)(x.double())
    single = exact.float()
    assert torch.equal(got.isnan(), single.isnan())
    assert torch.equal(got[got.isinf() | single.isinf()], single[got.isinf() | single.isinf()])
    finite = single.isfinite()
    assert torch.equal(got[finite].signbit(), single[finite].signbit())
    size = single[finite].abs()
    ulp = torch.nextafter(size, torch.tensor(math.inf)).double() - size.double()
    assert ((got[finite].double() - exact[finite]).abs() / ulp).max().item() <= BOUNDS[name]


def test_sigmoid_is_as_near_as_pytorchs(library: ctypes.CDLL) -> None:
    x = floats()
    got = run(library, "sigmoid_all", x, torch.float32)
    exact = torch.sigmoid(x.double())
    assert torch.equal(got.isnan(), exact.isnan())
    known = ~exact.isnan()
    error = (got.double() - exact).abs()[known]
    assert (error - 3e-7 * exact[known]).max().item() < 1.2e-38


@pytest.mark.parametrize(("half", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_conversions_are_exact(library: ctypes.CDLL, half: str, dtype: torch.dtype) -> None:
    x = floats()
    want = x.to(dtype)
    got = run(library, f"to_{half}_all", x, dtype)
    assert torch.equal(got.isnan(), want.isnan())
    kept = ~want.isnan()
    assert torch.equal(got.view(torch.int16)[kept], want.view(torch.int16)[kept])

    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    back = run(library, f"from_{half}_all", halves, torch.float32)
    right = halves.float()
    assert torch.equal(back.isnan(), right.isnan())
    kept = ~right.isnan()
    assert torch.equal(back.view(torch.int32)[kept], right.view(torch.int32)[kept])
