"""Numbers that tensors of integers are to hold: those that fit are held, others are refused in PyTorch's words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st

TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64")
#: calls of a library, a tensor of three ones and a number
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fill_": lambda t, x, number: x.clone().fill_(number),
    "full": lambda t, x, number: t.full((3,), number, dtype=x.dtype),
    "full_like": lambda t, x, number: t.full_like(x, number),
    "hardtanh": lambda t, x, number: t.nn.functional.hardtanh(x, number, 100.25),
    "index_fill": lambda t, x, number: x.index_fill(0, t.tensor([0]), number),
    "masked_fill": lambda t, x, number: x.masked_fill(t.tensor([True, False, True]), number),
    "new_full": lambda t, x, number: x.new_full((2,), number),
    "pad": lambda t, x, number: t.nn.functional.pad(x, (1, 1), value=number),
    "scatter": lambda t, x, number: x.scatter(0, t.tensor([0]), number),
    "setitem": lambda t, x, number: x.__setitem__(0, number) or x,
    "threshold": lambda t, x, number: t.nn.functional.threshold(x, 2, number),
    "where": lambda t, x, number: t.where(x > 0, x, number),
}
NUMBERS = st.one_of(
    st.integers(-(2**34), 2**34),
    st.integers(-400, 400),
    st.floats(-400, 400),
    st.sampled_from([-0.0, -0.5, -1.0, 127.5, 255.5, 256.0, 32767.9, 1e30, math.inf, -math.inf, math.nan, True]),
)


def outcome(library: Any, name: str, kind: str, number: object) -> str:
    """Return what a call gives or raises."""
    with library.device("cpu"):
        try:
            return str(CALLS[name](library, library.ones(3, dtype=getattr(library, kind)), number).tolist())
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@given(st.sampled_from(sorted(CALLS)), st.sampled_from(TYPES), NUMBERS)
def test_numbers_are_held_or_refused_as_by_pytorch(name: str, kind: str, number: object) -> None:
    assert outcome(ours, name, kind, number) == outcome(torch, name, kind, number)
