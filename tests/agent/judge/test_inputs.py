from __future__ import annotations

import pytest
import torch

from agent.judge import inputs
from agent.judge.inputs import FAMILIES, transform
from agent.task import ArgSpec


def spec(value, kind="input"):
    dtype = str(value.dtype).removeprefix("torch.")
    return ArgSpec("x", kind, dtype, tuple(value.shape), tuple(value.stride()))


def made(family, value, kind="input", seed=5):
    return transform(family, [value], [spec(value, kind)], seed)[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_keeps_shape_dtype_strides_and_the_original(family):
    for value in (torch.randn(12, 33), torch.randn(33, 12).t(), torch.randn(7).bfloat16(),
                  torch.tensor(2.0), torch.randn(1, 5).expand(4, 5)):  # fmt: skip
        before = value.clone()
        result = made(family, value)
        assert (result.shape, result.dtype, result.stride()) == (
            value.shape, value.dtype, value.stride(),
        )  # fmt: skip
        assert torch.equal(value, before)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_gives_the_same_values(family):
    value = torch.randn(40, 40)
    first, again, other = (made(family, value, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.nan_to_num(), again.nan_to_num())
    if family not in ("normal", "constant"):
        assert not torch.equal(first.nan_to_num(), other.nan_to_num())


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"special", "signed"}))
def test_positive_tasks_stay_positive(family):
    assert float(made(family, torch.rand(64, 64)).min()) >= 0


def test_integers_are_left_to_the_task():
    value = torch.arange(10)
    for family in FAMILIES:
        assert torch.equal(made(family, value), value)


def test_values_are_what_the_family_promises():
    value = torch.randn(60, 200)
    wide = made("wide", value).abs()
    assert float(wide.max()) > 1e3
    assert float(wide[wide > 0].min()) < 1e-4
    constant = made("constant", value)
    assert torch.equal(constant, constant[:, :1].expand(60, 200))
    tf32 = (constant.view(torch.int32) & ~0x1FFF).view(torch.float32)
    assert float(((constant - tf32) / constant).abs().min()) >= 2.0**-12
    special = made("special", value)
    assert special.isnan().any()
    assert (special == torch.inf).any()
    assert (special == -torch.inf).any()
    assert ((special != 0) & (special.abs() < 1e-38)).any()
    assert float(special.isfinite().all(1).double().mean()) > 0.5
    masked = special == -torch.inf
    assert int((masked[:, :100].all(1) & special[:, 100:].isfinite().all(1)).sum()) == 1
    assert int((masked[:, 100:].all(1) & special[:, :100].isfinite().all(1)).sum()) == 1
    whole = made("integers", value)
    assert torch.equal(whole, whole.round())
    structured = made("structured", value)
    assert float(structured[2, -1].abs()) > 5 * float(structured[2, :-1].abs().max())
    heavy = made("heavy", value).abs()
    assert float(heavy.max()) > 50 * float(heavy.median())
    clustered = made("clustered", value)
    assert len(clustered.argmax(-1).unique()) == 1
    assert len(clustered[:, 0].unique()) == 60
    signed = made("signed", value.abs())
    assert 0.4 < float((signed < 0).double().mean()) < 0.6
    assert torch.equal(signed.abs(), value.abs())


def test_blocks_weigh_their_ends_and_have_light_tiles_between():
    value = torch.rand(4, 80, 400) + 1
    share = made("blocks", value) / value
    for corner in (share[0, :10, :50], share[-1, -10:, -50:]):
        assert float(corner.min()) > 0.999
    tiles = share.view(4, 8, 10, 8, 50)
    assert float((tiles.amax((2, 4)) / tiles.amin((2, 4))).max()) < 1.001
    assert float(share.min()) < 1e-3
    line = made("blocks", torch.ones(800))
    assert float(line.min()) < 1e-2


def test_large_arguments_are_changed_in_parts_as_good_as_at_once(monkeypatch):
    value = torch.randn(40, 6, 50)
    monkeypatch.setattr(inputs, "_PART", 1000)
    for family in FAMILIES:
        result = made(family, value)
        assert result.shape == value.shape
        assert not torch.equal(result[-1], value[-1]) or family == "normal"
    assert torch.equal(made("constant", value)[..., :1].expand(40, 6, 50), made("constant", value))


def test_weights_change_but_mildly_and_never_stay_zero():
    weight = torch.rand(50) + 1
    result = made("wide", weight, "weight")
    assert not torch.equal(result, weight)
    assert float((result / weight).min()) >= 0.5
    assert float((result / weight).max()) <= 1.5
    assert made("wide", torch.zeros(50), "weight").any()
    assert torch.equal(made("normal", weight, "weight"), weight)


def test_large_values_do_not_overflow_a_small_dtype():
    value = torch.randn(200, 200).half() * 100
    for family in sorted(set(FAMILIES) - {"special"}):
        assert bool(made(family, value).isfinite().all())


def test_special_values_go_into_data_and_not_into_scales():
    data, scale = torch.randn(40, 64), torch.rand(64)
    specs = [spec(data), spec(scale)]
    first, second = transform("special", [data, scale], specs, 1)
    assert not bool(first.isfinite().all())
    assert torch.equal(second, scale)
