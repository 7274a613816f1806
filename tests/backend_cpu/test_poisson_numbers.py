"""Counts of small rates, many at once: PyTorch's numbers, and its place in the stream after them."""

from __future__ import annotations

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


def test_a_state_that_is_not_enough(monkeypatch):
    """Counts that take more numbers than a state has are drawn again in halves."""
    monkeypatch.setattr(poisson_numbers, "_LIKELY", 900)
    rates = torch.rand(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 8
    actual, expected = drawn(rates, 5)
    assert actual == expected


def test_pieces_of_words_ahead(monkeypatch):
    monkeypatch.setattr(poisson_numbers, "_AHEAD", 1000)
    rates = torch.rand(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 5
    actual, expected = drawn(rates, 6)
    assert actual == expected


def test_others_are_left_to_the_core():
    for rates in (np.full(5000, 10.0), np.full(5000, -1.0), np.full(5000, np.nan), np.ones(3)):
        assert poisson_numbers.poisson(MersenneTwister(0), rates) is None


def test_words_of_a_state():
    """A generator of NumPy with this state makes the numbers that PyTorch makes of the words."""
    drawn = words(MersenneTwister(8), 312, np.uint64)
    bits = np.random.MT19937(0)
    bits.state = {"bit_generator": "MT19937", "state": {"key": poisson_numbers._state_words(drawn), "pos": 0}}
    found = np.random.RandomState(bits).random_sample(312)
    assert found.tolist() == ((drawn & np.uint64((1 << 53) - 1)) * 2.0**-53).tolist()
