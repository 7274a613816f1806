"""Powers are one node of the graph and round as PyTorch's do, gradients included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st


def _results(library: Any, values: list[float], kind: str, exponent: float) -> list[Any]:
    x = library.tensor(values).to(getattr(library, kind)).requires_grad_()
    result = x**exponent
    edges = [type(each).__name__ for each, _ in result.grad_fn.next_functions if each is not None]
    result.sum().backward()
    return [type(result.grad_fn).__name__, edges, result.tolist(), x.grad.tolist()]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@given(
    exponent=st.sampled_from([0, 1, 2, 3, 1.0, 2.0, 3.0]),
    values=st.lists(st.floats(-8, 8, width=16), min_size=1, max_size=8),
)
def test_whole_powers(kind: str, exponent: float, values: list[float]) -> None:
    assert str(_results(ours, values, kind, exponent)) == str(_results(torch, values, kind, exponent))


@given(
    exponent=st.sampled_from([1, 3, 4, -1, 1.5]), values=st.lists(st.floats(0.5, 4, width=16), min_size=1, max_size=4)
)
def test_gradients_of_gradients(exponent: float, values: list[float]) -> None:
    found = []
    for library in (torch, ours):
        x = library.tensor(values, requires_grad=True)
        (first,) = library.autograd.grad((x**exponent).sum(), x, create_graph=True)
        (second,) = library.autograd.grad(first.sum(), x) if first.requires_grad else (library.zeros(len(values)),)
        found.append([round(each, 3) for each in second.tolist()])
    assert found[1] == pytest.approx(found[0], rel=1e-3)
