"""Functions of flipped tensors: an element's value does not depend on the way that its neighbours lie in memory."""

from __future__ import annotations

import pytest
import webgpu_torch as torch

FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sqrt", "rsqrt", "sigmoid",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, kind: str) -> None:
    """Of all elements, flipped and not, and of two at a time."""
    function = getattr(torch, name)
    x = torch.rand(4, 61, dtype=getattr(torch, kind), generator=torch.Generator().manual_seed(0)) * 0.9 + 0.05
    values = function(x).tolist()
    assert function(x.flip(0, 1)).flip(0, 1).tolist() == values
    assert function(x.flip(1)).flip(1).tolist() == values
    assert sum((function(each).tolist() for each in x[0].split(2)[:-1]), []) == values[0][:-1]


@pytest.mark.parametrize("name", ["pow", "atan2", "hypot"])
def test_functions_of_two(name: str) -> None:
    function = getattr(torch, name)
    x, y = torch.rand(2, 301, generator=torch.Generator().manual_seed(0))
    values = function(x, y).tolist()
    assert function(x.flip(0), y.flip(0)).flip(0).tolist() == values
    assert function(x.flip(0), y).tolist() == function(x.flip(0).clone(), y).tolist()


def test_a_value_that_is_computed_twice_equals_itself() -> None:
    """Where an element is read before the others are written, both are computed: diffusers looks for a step among all steps."""
    steps = torch.linspace(-1.2, 6.2, 7).exp().flip(0).atan() * 0.5
    assert (steps == steps[0]).tolist() == [True, *[False] * 6]
