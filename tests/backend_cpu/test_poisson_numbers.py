"""Counts of small rates, many at once: PyTorch's numbers, and its place in the stream after them."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
import pytest
import torch
from webgpu_torch_backend_cpu import poisson_numbers
from webgpu_torch_backend_cpu.uniform_numbers import words
from webgpu_torch_core.random_streams.streams import MersenneTwister


def drawn(rates, seed):
    """Return the counts here and in PyTorch, each with the words that follow."""
    stream = MersenneTwister(seed)
    found = poisson_numbers.poisson(stream, rates.numpy())
    assert found is not None
    torch.manual_seed(seed)
    expected = torch.poisson(rates)
    # Bytes are the low ends of the words that follow.
    following = torch.empty(5, dtype=torch.uint8).random_().tolist()
    return (found.tolist(), [each % 256 for each in stream.words(5)]), (expected.tolist(), following)


@pytest.mark.parametrize("count", [poisson_numbers.MANY_COUNTS, 3001, 70_000])
@pytest.mark.parametrize("most", [0.001, 1.0, 9.99])
def test_counts_and_what_follows(count, most):
    rates = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * most
    rates[::7] = 0
    actual, expected = drawn(rates, count)
    assert actual == expected


def test_no_rate_takes_no_word():
    actual, expected = drawn(torch.zeros(2000, dtype=torch.float64), 4)
    assert actual == expected


@pytest.mark.parametrize("margin", [0, -0.9])
def test_numbers_that_are_not_enough(margin, monkeypatch):
    """Counts that take more numbers than were drawn are drawn again, fewer at a time."""
    monkeypatch.setattr(poisson_numbers, "_MARGIN", margin)
    rates = torch.rand(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 8
    actual, expected = drawn(rates, 5)
    assert actual == expected


def test_pieces_of_words_ahead(monkeypatch):
    monkeypatch.setattr(poisson_numbers, "_AHEAD", 1000)
    monkeypatch.setattr(poisson_numbers, "_sampler", lru_cache(poisson_numbers._Sampler))
    rates = torch.rand(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 5
    actual, expected = drawn(rates, 6)
    assert actual == expected


def test_others_are_left_to_the_core():
    for rates in (np.full(5000, 10.0), np.full(5000, -1.0), np.full(5000, np.nan), np.ones(3)):
        assert poisson_numbers.poisson(MersenneTwister(0), rates) is None


def test_used_words():
    """The sampler reads the words that it is given, and tells how many, or that there are too few."""
    given = words(MersenneTwister(8), 1000, np.uint64)
    sampler, into = poisson_numbers._Sampler(), np.empty(100)
    used = sampler.counts(np.full(100, 2.0), given, into)
    assert used is not None and used == into.sum() + 100
    assert sampler.counts(np.full(100, 2.0), given[:used], into) == used
    assert sampler.counts(np.full(100, 2.0), given[: used - 1], into) is None


def test_a_state_that_is_not_known(monkeypatch):
    """Another order of the state's parts than NumPy's is noticed before anything is read through it."""

    class Other(ctypes.Structure):
        _fields_ = (("place", ctypes.c_int), ("buffer", ctypes.c_uint64 * 4))

    monkeypatch.setattr(poisson_numbers, "_State", Other)
    with pytest.raises(RuntimeError, match="not known"):
        poisson_numbers._Sampler()
    monkeypatch.setattr(poisson_numbers, "_sampler", poisson_numbers._sampler.__wrapped__)
    assert poisson_numbers.poisson(MersenneTwister(0), np.ones(5000)) is None
