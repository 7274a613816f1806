"""Sparse tensors divided, rounded down and written in place, and their texts without values: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "true_divide": lambda t, a, b: t.true_divide(a, 2),
    "//": lambda t, a, b: a // 2,
    "floor_divide": lambda t, a, b: t.floor_divide(a, t.tensor(3)),
    "floor_divide of both": lambda t, a, b: a // b,
    "add_": lambda t, a, b: a.add_(b),
    "sub_": lambda t, a, b: a.sub_(b),
    "mul_": lambda t, a, b: a.mul_(b),
    "div_": lambda t, a, b: a.div_(2),
    "floor_divide_": lambda t, a, b: a.floor_divide_(2),
    "copy_": lambda t, a, b: a.copy_(b),
    "copy_ of a dense one": lambda t, a, b: a.copy_(b.to_dense()),
    "repr": lambda t, a, b: repr(a - a.coalesce()),
    "repr of nothing": lambda t, a, b: repr(t.zeros_like(a)),
}
TYPES = ["uint8", "int16", "int64", "float32", "float64"]


def outcome(library: Any, name: str, kinds: tuple[str, str], numbers: list[list[int]]) -> Any:
    one, other = (
        library.tensor(each, dtype=getattr(library, kind), device="cpu").reshape(2, 3).to_sparse()
        for each, kind in zip(numbers, kinds, strict=True)
    )
    try:
        found = OPERATIONS[name](library, one, other)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__, str(error)
    return found if isinstance(found, str) else (str(found.dtype), str(found.layout), found.to_dense().tolist())


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(
    name=st.sampled_from([*OPERATIONS]),
    kinds=st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    numbers=st.lists(st.lists(st.integers(0, 5), min_size=6, max_size=6), min_size=2, max_size=2),
)
def test_sparse_tensors_in_place(name: str, kinds: tuple[str, str], numbers: list[list[int]]) -> None:
    assert outcome(ours, name, kinds, numbers) == outcome(torch, name, kinds, numbers)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("shape", [(2, 0, 4), (2, 3, 0), (0, 4), (0, 3, 4), (2, 0, 3, 4)])
def test_images_without_elements(mode: str, shape: tuple[int, ...]) -> None:
    def padded(library: Any) -> Any:
        try:
            return list(
                library.nn.functional.pad(library.ones(shape), (1, 1) * max(len(shape) - 2, 1), mode=mode).shape
            )
        except RuntimeError as error:
            return str(error)

    assert padded(ours) == padded(torch)


def test_empty_ones_are_joined_along_any_dimension() -> None:
    for library in (torch, ours):
        assert library.cat([library.empty(0), library.empty(0)], 1).shape == (0,)
