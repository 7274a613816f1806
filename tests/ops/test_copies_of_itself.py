"""What is copied onto itself, and how often in-place calls count as changes: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda base: base,
    "transposed": lambda base: base.t(),
    "column": lambda base: base[:, 1],
    "expanded": lambda base: base[:1].expand(3, 3),
    "expanded column": lambda base: base[:, 1:2].expand(3, 4),
    "of windows": lambda base: base.as_strided((3, 2), (1, 1)),
    "empty": lambda base: base[:0].expand(0, 3),
}
SOURCES = ("itself", "same view", "detached", "data", "other memory")
TYPES = ("float32", "int64", "bool", "complex64", "float16")


def outcome(library: Any, place: str, kind: str, view: str, source: str) -> object:
    """Return what copying into a view of a square leaves there, or how it is refused."""
    base = library.arange(9, device=place).reshape(3, 3).to(getattr(library, kind))
    if kind == "complex64":
        base = base * (1 + 2j)
    written = VIEWS[view](base)
    given = {
        "itself": lambda: written,
        "same view": lambda: VIEWS[view](base),
        "detached": lambda: written.detach(),
        "data": lambda: written.data,
        "other memory": lambda: written.clone().zero_(),
    }[source]()
    version = written._version
    try:
        result = written.copy_(given)
    except RuntimeError as error:
        return str(error).partition(".")[0]
    return result is written, result.tolist(), base.tolist(), written._version - version


@pytest.mark.parametrize("place", ["cpu", "webgpu"])
@given(st.sampled_from(TYPES), st.sampled_from(sorted(VIEWS)), st.sampled_from(SOURCES))
def test_copied_onto_itself(place: str, kind: str, view: str, source: str) -> None:
    """A view copied onto itself is left as it is, even where it shows elements twice; what is elsewhere is refused there."""
    assert outcome(ours, place, kind, view, source) == outcome(torch, "cpu", kind, view, source)


def test_gradient_of_a_copy_onto_itself() -> None:
    """It is that of any copy: the elements that were there before get none."""
    for library in (torch, ours):
        leaf: Any = library.tensor([1.0, 2.0], requires_grad=True)
        product = leaf * 3
        product.copy_(product)
        assert (product._version, product.grad_fn.name().rpartition("::")[2]) == (1, "CopyBackwards"), library
        product.sum().backward()
        assert leaf.grad.tolist() == [3.0, 3.0], library


CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "as_strided_": lambda t, each: each.as_strided_((2,), (1,)),
    "resize_": lambda t, each: each.resize_(7),
    "t_": lambda t, each: each.t_(),
    "copy_": lambda t, each: each.copy_(each),
    "out of other sizes": lambda t, each: t.mm(t.ones(2, 3), t.ones(3, 4), out=each.resize_(0)),
    "out of another order": lambda t, each: t.abs(
        t.ones(2, 3, 4, 5).to(memory_format=t.channels_last), out=each.resize_(0)
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_counted(name: str) -> None:
    """A call that changes a tensor in place counts as one change."""
    counts = []
    for library in (torch, ours):
        each: Any = library.ones(2, 3)
        CHANGES[name](library, each)
        counts.append(each._version)
    assert counts[0] == counts[1]
