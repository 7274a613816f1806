"""Rows taken into places of an array, against one element after the other, and PyTorch's functions that write rows."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import scattering

FUNCTIONS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "replace": None}


@st.composite
def rows(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], np.ndarray]:
    """Return sizes and strides of rows, whose own elements are apart, and where rows start, whatever they overlap."""
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    strides, reach = [], 0
    for size in sizes:
        strides.append(reach + draw(st.sampled_from((1, 1, 2, 7))))
        reach += (size - 1) * strides[-1]
    order = draw(st.permutations(range(len(sizes))))
    step = draw(st.sampled_from((1, 2, 5, reach + 1)))
    first = np.array(draw(st.lists(st.integers(0, 6), min_size=0, max_size=40))) * step
    return tuple(sizes[each] for each in order), tuple(strides[each] for each in order), first.astype(np.int64)


@settings(max_examples=100, deadline=None)
@given(rows(), st.sampled_from(sorted(FUNCTIONS)), st.integers(0, 9), st.integers(0, 99), st.booleans())
def test_drawn_rows(
    case: tuple[tuple[int, ...], tuple[int, ...], np.ndarray], name: str, rest: int, seed: int, in_turns: bool
) -> None:
    sizes, strides, first = case
    generator = np.random.default_rng(seed)
    offsets = sum(
        np.arange(size).reshape([-1 if axis == each else 1 for axis in range(len(sizes))]) * stride
        for each, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    )
    target = generator.integers(-3, 4, int(first.max(initial=0) + np.max(offsets)) + 1 + rest).astype(np.float32)
    values = generator.integers(-3, 4, (len(first), *sizes)).astype(np.float32)
    expected, how = target.copy(), FUNCTIONS[name]
    for start, row in zip(first, values, strict=True):
        for place, value in zip((start + offsets).reshape(-1), row.reshape(-1), strict=True):
            expected[place] = value if how is None else how(expected[place], value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scattering, "LEAST_ELEMENTS", 0 if in_turns else scattering.LEAST_ELEMENTS)
        scattering.rows(how, target, first, values, strides)
    np.testing.assert_array_equal(target, expected)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 300)), st.integers(-3, 2), st.integers(0, 40),
    st.integers(0, 99), st.sampled_from("index_add index_copy index_fill embedding take messages".split()),
    st.sampled_from(("float32", "float16", "bfloat16", "int32")),
)  # fmt: skip
def test_drawn_writes(shape: tuple[int, int, int], axis: int, count: int, seed: int, name: str, kind: str) -> None:
    torch.manual_seed(seed)
    count = min(count, shape[axis]) if name == "index_copy" else count
    index = torch.randperm(shape[axis])[:count] if name == "index_copy" else torch.randint(0, shape[axis], (count,))
    whole, rows = (torch.randint(-4, 5, each) for each in (shape, (*shape[: axis % 3], count, *shape[axis % 3 + 1 :])))

    def run(library: ModuleType, make: Callable[[torch.Tensor], Any]) -> Any:
        x, y, i = (make(each) for each in (whole, rows, index))
        x, y = (each.to(getattr(library, kind)) for each in (x, y))
        if name in ("embedding", "take"):
            if not x.dtype.is_floating_point:
                return x
            x.requires_grad_()
            found = (
                x.index_select(axis, i) if name == "take" else library.nn.functional.embedding(i % shape[0], x[:, 0])
            )
            found.sum().backward()
            return x.grad
        if name == "messages":
            # Rows that are read at positions, too, as those of a graph's neighbours.
            return (x * 0).index_add(axis, i, x.index_select(axis, i.flip(0)) * 2)
        return getattr(x, name)(axis, i, 2) if name == "index_fill" else getattr(x, name)(axis, i, y)

    found = run(
        ours,
        lambda each: ours.tensor(each.tolist(), dtype=ours.int64, device="cpu").reshape(each.shape),
    )
    expected = run(torch, torch.clone)
    assert found.to(ours.float64).tolist() == expected.double().tolist()
