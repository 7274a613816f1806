"""Calls in forms that PyTorch deprecated and still takes give what PyTorch gives, and a warning."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.dispatch.deprecated_overloads import _NUMBERS, _ORDERS
from webgpu_torch_core.notices import Notices

SHAPES = {
    "mat1": (2, 3), "mat2": (3, 4), "mat": (2, 3), "vec": (3,), "vec1": (2,), "vec2": (4,), "batch1": (2, 2, 3), "batch2": (2, 3, 4),
}  # fmt: skip
RESULTS = {"addmv": (2,), "baddbmm": (2, 2, 4)}
NAMES = sorted(_ORDERS)


def _operand(name: str, function: str) -> list[Any]:
    """Return numbers of the shape that an operand has."""
    shape = SHAPES.get(name, RESULTS.get(function, (2, 4)))
    size = torch.Size(shape).numel()
    return (torch.arange(size, dtype=torch.float32).reshape(shape) / 4 - 1 - len(name) / 8).tolist()


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    place=st.integers(0, 3),
    numbers=st.lists(st.sampled_from([-2, 0, 1, 0.5, -1.5]), min_size=2, max_size=2),
    how=st.sampled_from(["function", "method", "in place", "out", "named"]),
    gradient=st.booleans(),
)
def test_forms(name: str, place: int, numbers: list[float], how: str, gradient: bool) -> None:
    order = _ORDERS[name][place % len(_ORDERS[name])]
    method = how in ("method", "in place")
    if method and order[0] != "input":
        order = (order[1], order[0], *order[2:])
    if not method and order[:2] == ("input", "beta"):
        order = ("beta", "input", *order[2:])

    def called(library: Any) -> list[Any]:
        drawn = iter(numbers)
        tensors = {each: library.tensor(_operand(each, name)) for each in order if each not in _NUMBERS}
        if gradient and how != "out":
            for each in tensors.values():
                each.requires_grad_()
        given = [next(drawn) if each in _NUMBERS else tensors[each] for each in order]
        if how == "in place":
            given[0] = given[0].clone()
        Notices.said.clear()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            if method:
                result = getattr(given[0], name + "_" * (how == "in place"))(*given[1:])
            elif how == "out":
                result = library.empty(0)
                getattr(library, name)(*given, out=result)
            elif how == "named":
                result = getattr(library, name)(*given[:-1], **{order[-1]: given[-1]})
            else:
                result = getattr(library, name)(*given)
        # PyTorch tells the first call of a process.
        assert library is torch or any(f"This overload of {name}" in str(each.message) for each in told)
        if result.requires_grad:
            result.sum().backward()
        return [result.tolist(), *(None if each.grad is None else each.grad.tolist() for each in tensors.values())]

    assert called(webgpu_torch) == called(torch)


@pytest.mark.parametrize("name", NAMES)
def test_other_wrong_calls_are_refused(name: str) -> None:
    for library in (torch, webgpu_torch):
        matrix = library.ones(2, 2)
        for wrong in ((matrix, "2", matrix, matrix, matrix), (matrix, 2, 3, 4, 5), (matrix,)):
            with pytest.raises(TypeError):
                getattr(library, name)(*wrong)


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("name", ["add", "sub"])
def test_what_refuses_out_is_named(name: str) -> None:
    told = []
    for library in (webgpu_torch, torch):
        one = library.ones(2, 2)
        with pytest.raises(RuntimeError) as refusal:
            getattr(library, name)(one, 1, one, out=library.ones(2, 2, requires_grad=True))
        told.append((refusal.type, str(refusal.value)))
    assert told[0] == told[1]
