"""Random numbers on the device: the words that their definition says, and no pattern that simple statistics see."""

from __future__ import annotations

import math

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.ir.threefry import threefry4x32

COUNT = 1 << 15
#: by how many standard deviations a statistic may be off; one in a hundred million is further
FAR = 5.7
seeds = st.integers(0, 2**64 - 1)


def _generator(seed: int, offset: int = 0) -> ours.Generator:
    """Return a generator that drew so many times."""
    found = ours.Generator("webgpu")
    state = seed.to_bytes(8, "little") + offset.to_bytes(8, "little")
    found.set_state(ours.tensor(list(state), dtype=ours.uint8))
    return found


def _numbers(drawn: ours.Tensor) -> torch.Tensor:
    return torch.tensor(drawn.cpu().numpy()).double()


@settings(max_examples=25, deadline=None)
@given(seed=seeds, offset=st.integers(0, 2**32 - 1), count=st.integers(1, 40))
def test_words_are_of_the_definition(seed: int, offset: int, count: int) -> None:
    found = ours.rand(count, device="webgpu", generator=_generator(seed, offset)).tolist()
    key = (seed & 0xFFFFFFFF, seed >> 32, offset, 0)
    words = [word for block in range(-(-count // 4)) for word in threefry4x32((block, 0, 0, 0), key)]
    assert found == [(word >> 8) / 2**24 for word in words[:count]]


def _drawn(kind: str, seed: int, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers with mean 0 and variance 1 if they are drawn well, and where in (0, 1) they are in their distribution."""
    generator = _generator(seed, offset)
    if kind == "normal":
        values = _numbers(ours.randn(COUNT, device="webgpu", generator=generator))
        return values, torch.special.ndtr(values)
    if kind == "exponential":
        values = _numbers(ours.empty(COUNT, device="webgpu").exponential_(1.0, generator=generator))
        assert values.min() > 0.0
        return values - 1.0, -torch.expm1(-values)
    values = _numbers(ours.rand(COUNT, device="webgpu", generator=generator))
    assert 0.0 <= values.min() and values.max() < 1.0
    return (values - 0.5) * math.sqrt(12.0), values


def _even(places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return places as numbers with mean 0 and variance 1, and so their distances from the middle."""
    return (places - 0.5) * math.sqrt(12.0), ((places - 0.5).abs() - 0.25) * math.sqrt(48.0)


@pytest.mark.parametrize("kind", ["normal", "exponential", "uniform"])
@settings(max_examples=6, deadline=None)
@given(seed=seeds, offset=st.integers(0, 1000))
def test_numbers_show_no_pattern(kind: str, seed: int, offset: int) -> None:
    values, places = _drawn(kind, seed, offset)
    root = math.sqrt(COUNT)
    assert abs(values.mean()) * root < FAR
    if kind == "normal":
        assert abs((values.square() - 1.0).mean()) * root < FAR * math.sqrt(2.0)
    bins = 128
    expected = COUNT / bins
    chi = ((torch.histc(places, bins, 0.0, 1.0) - expected) ** 2 / expected).sum()
    # Wilson and Hilferty: the cube root of a chi-square number is nearly normal.
    free = bins - 1
    assert abs((chi / free) ** (1 / 3) - 1 + 2 / (9 * free)) / math.sqrt(2 / (9 * free)) < FAR
    for each in _even(places):
        for lag in (1, 2, 3, 4, 5, 8):
            assert abs((each[lag:] * each[:-lag]).mean()) * root < FAR, lag
    # Streams beside this one have nothing to do with it.
    for other in ((seed, offset + 1), ((seed + 1) % 2**64, offset), (seed ^ (1 << 32), offset)):
        for each, beside in zip(_even(places), _even(_drawn(kind, *other)[1]), strict=True):
            assert abs((each * beside).mean()) * root < FAR, other


@settings(max_examples=20, deadline=None)
@given(seed=seeds, chance=st.floats(0.0, 1.0))
def test_chances(seed: int, chance: float) -> None:
    drawn = ours.empty(COUNT, device="webgpu").bernoulli_(chance, generator=_generator(seed))
    share = float(drawn.mean())
    assert abs(share - chance) <= FAR * math.sqrt(chance * (1.0 - chance) / COUNT) + 2.0**-24
    assert share == chance or 0.0 < chance < 1.0
