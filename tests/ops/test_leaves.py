"""Leaves that are views, that stop requiring gradients, and tensors that grow: as PyTorch treats them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:],
    "row": lambda x: x[0],
    "all": lambda x: x[:],
    "view": lambda x: x.view(x.shape),
    "narrow": lambda x: x.narrow(0, 0, min(1, x.shape[0])),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "transposed": lambda x: x.transpose(0, -1),
    "detached": lambda x: x.detach(),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "mul_": lambda x: x.mul_(2.0),
    "zero_": lambda x: x.zero_(),
    "part": lambda x: x.__setitem__(..., 5.0),
    "copy_": lambda x: x.copy_(x.detach() + 1),
    "exp_": lambda x: x.exp_(),
}


def _attempt(call: Callable[[], Any]) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error).split("\n")[0]
    return "taken"


def _leaf_that_is_a_view(library: Any, before: list[str], after: list[str], write: str, whole: bool) -> Any:
    start = library.arange(12.0).reshape(3, 2, 2).clone()
    leaf = start
    for name in before:
        leaf = VIEWS[name](leaf)
    leaf.requires_grad_()
    part = leaf
    for name in after:
        part = VIEWS[name](part)
    said = _attempt(lambda: WRITES[write](start if whole else part))
    loss = (leaf * leaf).sum()
    loss.backward()
    return said, leaf.is_leaf, start.is_leaf, leaf.grad.tolist(), leaf.tolist(), start.tolist()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(VIEWS)), max_size=2),
    st.lists(st.sampled_from(sorted(VIEWS)), max_size=1),
    st.sampled_from(sorted(WRITES)),
    st.booleans(),
)
def test_writes_into_leaves_that_are_views(before: list[str], after: list[str], write: str, whole: bool) -> None:
    wanted = _leaf_that_is_a_view(torch, before, after, write, whole)
    found = _leaf_that_is_a_view(ours, before, after, write, whole)
    assert found[:3] == wanted[:3]
    assert torch.allclose(torch.tensor(found[3]), torch.tensor(wanted[3]))
    assert torch.allclose(torch.tensor(found[5]), torch.tensor(wanted[5]))


def _frozen_between(library: Any, frozen: list[bool]) -> Any:
    """Freeze leaves after the pass forward: what no longer requires a gradient gets none."""
    leaves = [library.ones(2, requires_grad=True) for _ in frozen]
    seen: list[int] = []
    for number, each in enumerate(leaves):
        each.register_hook(lambda grad, number=number: seen.append(number))
    loss = sum((each * (number + 2)).sum() for number, each in enumerate(leaves))
    for each, stop in zip(leaves, frozen, strict=True):
        each.requires_grad_(not stop)
    loss.backward()
    return sorted(seen), [None if each.grad is None else each.grad.tolist() for each in leaves]


@pytest.mark.parametrize("frozen", [[True, False], [False, True, True], [False]])
def test_leaves_frozen_before_backward(frozen: list[bool]) -> None:
    assert _frozen_between(ours, frozen) == _frozen_between(torch, frozen)


def test_flags_of_results() -> None:
    for library in (torch, ours):
        result = library.ones(2, requires_grad=True) * 2
        for flag in (True, False):
            with pytest.raises(RuntimeError, match="flags of leaf variables"):
                result.requires_grad = flag
        assert result.requires_grad_() is result


def _resized(library: Any, offset: int, length: int, sizes: list[int]) -> Any:
    start = library.arange(6.0)
    part = start[offset : offset + length]
    said = []
    for size in sizes:
        part.resize_(size)
        kept = min(size, 6 - offset)
        said.append((part[:kept].tolist(), part.storage_offset(), tuple(part.shape)))
    part.fill_(9.0)
    return said, start.tolist(), part.tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 5), st.integers(0, 4), st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_parts_that_are_resized(offset: int, length: int, sizes: list[int]) -> None:
    assert _resized(ours, offset, length, sizes) == _resized(torch, offset, length, sizes)


@pytest.mark.parametrize("name", ["unsqueeze_", "squeeze_", "t_", "transpose_"])
def test_other_shapes_in_place_count_as_writes(name: str) -> None:
    arguments = {"unsqueeze_": (0,), "transpose_": (0, 1)}.get(name, ())
    for library in (torch, ours):
        kept = (library.ones(2, 2, requires_grad=True) * 1).exp()
        getattr(kept, name)(*arguments)
        assert kept._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            kept.sum().backward()
