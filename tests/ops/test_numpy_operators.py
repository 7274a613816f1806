"""Operators between tensors and NumPy's arrays and numbers are PyTorch's: its results, and its refusals."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.and_,
    operator.or_, operator.xor, operator.eq, operator.lt, operator.ge, operator.iadd, operator.imul,
]  # fmt: skip
FUNCTIONS: list[Callable[..., Any]] = [
    lambda library, a, b: library.add(a, b),
    lambda library, a, b: library.mul(a, b),
    lambda library, a, b: library.maximum(a, b),
]
TYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]


def outcome(run: Callable[[], Any]) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = run()
        except (TypeError, RuntimeError, NotImplementedError) as error:
            return "TypeError" if isinstance(error, TypeError) else "another error"
    if found is NotImplemented or isinstance(found, bool):
        return found
    return str(found.dtype).removeprefix("torch."), tuple(found.shape), repr(found.tolist())


@settings(deadline=None)
@given(
    st.sampled_from(OPERATORS), st.sampled_from(TYPES), st.sampled_from(TYPES), st.booleans(),
    st.sampled_from(["array", "array of no dimensions", "number"]), st.integers(1, 3),
)  # fmt: skip
def test_operators(function: Any, left: str, right: str, array_first: bool, kind: str, value: int) -> None:
    def run(library: Any) -> Any:
        array: Any = numpy.array([value, 1], dtype=left)
        array = array if kind == "array" else array[0] if kind == "number" else array[0].reshape(())
        tensor = library.tensor([1, 2], dtype=getattr(library, right))
        return function(array, tensor) if array_first else function(tensor, array)

    wanted = outcome(lambda: run(torch))
    assert outcome(lambda: run(ours)) == wanted


@settings(deadline=None)
@given(st.sampled_from(FUNCTIONS), st.sampled_from(TYPES), st.booleans())
def test_functions_take_no_arrays(function: Any, kind: str, array_first: bool) -> None:
    for library in (torch, ours):
        array, tensor = numpy.ones(2, kind), library.ones(2)
        assert outcome(lambda: function(library, *(array, tensor) if array_first else (tensor, array))) == "TypeError"
