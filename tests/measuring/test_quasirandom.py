"""Sobol' sequences are PyTorch's, bit by bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.quasirandom
import webgpu_torch
import webgpu_torch.quasirandom
from webgpu_torch_tools.quasirandom import _direction_numbers

BOTH: tuple[Any, Any] = (webgpu_torch, torch)


def same(one: Any, other: Any) -> None:
    assert (
        tuple(one.shape) == tuple(other.shape)
        and str(one.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2]
    )
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 7, 100])
def test_sequences(dimension: int, scramble: bool) -> None:
    ours, reference = (each.quasirandom.SobolEngine(dimension, scramble, seed=3) for each in BOTH)
    for count in (1, 3, 0, 5):
        same(ours.draw(count), reference.draw(count)) if count else None
    same(ours.draw(4, dtype=webgpu_torch.float64), reference.draw(4, dtype=torch.float64))
    for engine in (ours, reference):
        engine.fast_forward(10)
    same(ours.draw(2), reference.draw(2))
    same(ours.quasi, reference.quasi)
    for engine in (ours, reference):
        engine.reset()
        engine.fast_forward(3)
    same(ours.draw_base2(0), reference.draw_base2(0))
    same(ours.sobolstate, reference.sobolstate)
    assert repr(ours) == repr(reference)


def test_seed_of_the_generator() -> None:
    drawn = []
    for framework in BOTH:
        framework.manual_seed(5)
        drawn.append(framework.quasirandom.SobolEngine(3, scramble=True).draw(3))
    same(*drawn)


def test_refusals() -> None:
    for framework in BOTH:
        for dimension in (0, 21202):
            with pytest.raises(ValueError, match="21201"):
                framework.quasirandom.SobolEngine(dimension)
        engine = framework.quasirandom.SobolEngine(2)
        engine.draw(3)
        with pytest.raises(ValueError, match="power of 2"):
            engine.draw_base2(2)


@pytest.mark.slow
def test_all_dimensions() -> None:
    state = torch.zeros(21201, 30, dtype=torch.long)
    torch._sobol_engine_initialize_state_(state, 21201)
    assert _direction_numbers(21201, 30) == state.tolist()
