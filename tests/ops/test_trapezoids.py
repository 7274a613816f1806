"""Integrals by the trapezoidal rule: values, types, nodes and mistakes are PyTorch's for drawn samples and positions."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import ORACLE, OURS, compare

KINDS = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "complex64", "bool")
FUNCTIONS = ("trapezoid", "cumulative_trapezoid", "trapz")
POSITIONS = ("none", "a step", "a whole step", "as many", "one more", "of every sample")


def _integral(t: Any, function: str, kind: str, shape: tuple[int, ...], dim: int, given: str) -> Any:
    """Return the integral and the name of its node, or what is said instead of it."""
    count = shape[dim]
    samples = (t.arange(t.zeros(shape).numel()).reshape(shape) * 3 % 11).to(getattr(t, kind))
    if samples.is_floating_point():
        samples.requires_grad_()
    options: dict[str, Any] = {
        "none": {}, "a step": {"dx": 0.3}, "a whole step": {"dx": 2}, "as many": {"x": t.arange(count) * 0.7},
        "one more": {"x": t.arange(count + 1)}, "of every sample": {"x": t.arange(t.zeros(shape).numel()).reshape(shape) * 0.7},
    }[given]  # fmt: skip
    try:
        found = getattr(t, function)(samples, **options, dim=dim)
    except (RuntimeError, IndexError) as error:
        return type(error).__name__, str(error)
    return found, found.grad_fn and found.grad_fn.name()


@settings(max_examples=200, deadline=None)
@given(
    function=st.sampled_from(FUNCTIONS), kind=st.sampled_from(KINDS), shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    dim=st.integers(-3, 2), given=st.sampled_from(POSITIONS),
)  # fmt: skip
def test_drawn(function: str, kind: str, shape: list[int], dim: int, given: str) -> None:
    dim = dim % len(shape) - (len(shape) if dim < 0 else 0)
    found, wanted = (_integral(t, function, kind, tuple(shape), dim, given) for t in (OURS, ORACLE))
    if isinstance(wanted[0], torch.Tensor):
        assert found[1:] == wanted[1:]
        compare(found[0], wanted[0].detach())
    else:
        assert found == wanted
