"""Norms and condition numbers of matrices, also of those without elements, and reflected operators called by name: as in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

ORDERS = [None, 1, -1, 2, -2, math.inf, -math.inf, "fro", "nuc", "other", 3]


def told(library: Any, shape: tuple[int, ...], order: Any, function: str, keepdim: bool) -> Any:
    """Return a norm's numbers and sizes, or what was raised."""
    matrix = library.arange(math.prod(shape), dtype=library.float64).reshape(shape).sin()
    try:
        if function == "cond":
            found = library.linalg.cond(matrix, order)
        else:
            found = library.linalg.norm(matrix, order, (-2, -1), keepdim)
    except (RuntimeError, IndexError) as error:
        # Which of the dimensions is empty is told by another number where they have been moved.
        return type(error).__name__, str(error).partition(" dim ")[0]
    return list(found.shape), found.flatten().tolist()


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(0, 3), min_size=2, max_size=3).map(tuple),
    order=st.sampled_from(ORDERS),
    function=st.sampled_from(["cond", "norm"]),
    keepdim=st.booleans(),
)
def test_norms_of_matrices(shape: tuple[int, ...], order: Any, function: str, keepdim: bool) -> None:
    found, expected = (told(library, shape, order, function, keepdim) for library in (ours, torch))
    assert found[0] == expected[0]
    # The condition of a matrix that is almost singular is noise.
    large = [each > 1e10 for each in expected[1]] if isinstance(expected[0], list) else []
    if not any(large):
        assert found[1] == (
            expected[1] if isinstance(expected[1], str) else pytest.approx(expected[1], rel=1e-6, nan_ok=True)
        )


@pytest.mark.parametrize("value", [-7.5, 3, True])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and"])
def test_reflected_operators_of_a_number_on_the_left(name: str, value: complex) -> None:
    def outcome(library: Any) -> Any:
        try:
            found = getattr(library.Tensor, f"__r{name}__")(value, library.full((2,), 2))
        except (TypeError, AttributeError, RuntimeError, NotImplementedError) as error:
            return type(error).__name__
        return found if found is NotImplemented else (str(found.dtype), found.tolist())

    if name not in ("add", "mul", "truediv"):
        assert outcome(ours) == outcome(torch)
    else:
        assert isinstance(outcome(ours), str)
