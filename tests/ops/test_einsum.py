"""Sums of products over named dimensions beside PyTorch: values, strides of the results, and what is refused in which words."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import to_ours, to_torch

LABELS = "abcde"


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, list[torch.Tensor]]:
    """Draw an equation and operands, some of them transposed in memory."""
    sizes = {each: draw(st.integers(1, 3)) for each in LABELS}
    count = draw(st.integers(1, 4))
    terms = ["".join(draw(st.permutations(LABELS))[: draw(st.integers(1, 3))]) for _ in range(count)]
    used = sorted(set("".join(terms)))
    result = "".join(draw(st.permutations(used))[: draw(st.integers(0, 4))])
    operands = []
    for each in terms:
        # A dimension of one element broadcasts.
        shape = [1 if draw(st.integers(0, 9)) == 9 else sizes[label] for label in each]
        x = torch.arange(1.0, 1 + math.prod(shape)).reshape(shape)
        operands.append(x.transpose(0, -1).contiguous().transpose(0, -1) if draw(st.booleans()) else x)
    return f"{','.join(terms)}->{result}", operands


@settings(max_examples=150, deadline=None)
@given(equations())
def test_values_and_strides(drawn: tuple[str, list[torch.Tensor]]) -> None:
    equation, operands = drawn
    wanted = torch.einsum(equation, *operands)
    found = ours.einsum(equation, *(to_ours(each, "cpu") for each in operands))
    assert tuple(found.stride()) == wanted.stride()
    torch.testing.assert_close(to_torch(found), wanted)


PIECES = ("i", "j", "...", ".", "..", " ", ",", "->", "1")


@settings(max_examples=80, deadline=None)
@given(equations(), st.booleans(), st.booleans())
def test_every_call_of_a_kind(drawn: tuple[str, list[torch.Tensor]], implicit: bool, leading: bool) -> None:
    """Gradients, nodes and whether results are views are those of the first call in all that follow."""
    equation, operands = drawn
    left, _, right = equation.partition("->")
    if leading:
        left, right = ",".join("..." + each for each in left.split(",")), "..." + right
        operands = [torch.stack([each, each + 1]) for each in operands]
    equation = left if implicit else f"{left}->{right}"

    def told(library: Any) -> Any:
        leaves = [(each if library is torch else to_ours(each, "cpu")).detach().requires_grad_() for each in operands]
        try:
            result = library.einsum(equation, *leaves)
        except RuntimeError as error:
            return str(error)
        result.sum().backward()
        with library.no_grad():
            apart = library.einsum(equation, *leaves)
        named = result.grad_fn and result.grad_fn.name()
        return named, result._is_view(), apart._is_view(), result.tolist(), [each.grad.tolist() for each in leaves]

    wanted = told(torch)
    for _ in range(3):
        assert told(ours) == wanted


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.integers(1, 2))
def test_equations_that_are_refused(equation: str, count: int) -> None:
    answers: list[Any] = []
    for library in (torch, ours):
        try:
            answers.append(tuple(library.einsum(equation, *[library.ones(2, 2)] * count).shape))
        except RuntimeError as error:
            answers.append(str(error))
    assert answers[1] == answers[0]


@pytest.mark.parametrize("equation", ["ij,jk->ki", "ij,jk,kl->li", "bij,bjk->kib"])
def test_on_devices(equation: str, device: str) -> None:
    shapes = {"i": 2, "j": 3, "k": 4, "l": 5, "b": 2}
    operands = [torch.ones([shapes[label] for label in each]) for each in equation.partition("->")[0].split(",")]
    wanted = torch.einsum(equation, *operands)
    found = ours.einsum(equation, *(to_ours(each, device) for each in operands))
    assert tuple(found.stride()) == wanted.stride()
    torch.testing.assert_close(to_torch(found), wanted)
