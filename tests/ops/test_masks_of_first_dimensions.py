"""Reading where a mask of some or all of a tensor's first dimensions holds: values, strides, gradients and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import webgpu_torch as ours
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    data=st.data(),
    share=st.sampled_from((0.5, 1.0)),
    tracked=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_what_a_mask_chooses(shape: list[int], data: st.DataObject, share: float, tracked: bool, seed: int) -> None:
    order = data.draw(st.permutations(range(len(shape))), label="order")
    dims = data.draw(st.integers(1, len(shape)), label="dims")
    longer = data.draw(st.sampled_from((0, 0, 0, 1)), label="longer")
    numbers = np.random.default_rng(seed)
    values = numbers.normal(size=shape).astype("f4")
    holds = numbers.random([shape[each] + longer for each in order[:dims]]) < share

    def read(library: Any) -> Any:
        base = library.from_numpy(values.copy()).requires_grad_(tracked)
        try:
            found = base.permute(order)[library.from_numpy(holds.copy())]
        except IndexError as error:
            return str(error)
        if tracked:
            (found * found).sum().backward()
        # Of nothing strides tell nothing.
        strides = found.stride() if found.numel() else None
        return found.tolist(), tuple(found.shape), strides, base.grad.tolist() if tracked else None

    assert read(ours) == read(torch)


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    data=st.data(),
    kind=st.sampled_from(("float32", "float16", "int64", "uint8", "bool", "complex64")),
    value=st.sampled_from((0, 1.5, True, -3, float("nan"), 1 << 62, 1e30)),
    tracked=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_what_a_number_fills(
    shape: list[int], data: st.DataObject, kind: str, value: float, tracked: bool, seed: int
) -> None:  # fmt: skip
    order = data.draw(st.permutations(range(len(shape))), label="order")
    dims = data.draw(st.integers(1, len(shape)), label="dims")
    part = data.draw(st.booleans(), label="part")
    rest = len(shape) - dims
    slices = data.draw(st.sampled_from([(), (slice(None),) * rest, (slice(0, 1),) * (rest > 0)]), label="slices")
    numbers = np.random.default_rng(seed)
    values = (numbers.normal(size=[2, *shape]) * 3).clip(0).astype("f4")
    holds = numbers.random([shape[each] for each in order[:dims]]) < 0.5
    tracked = tracked and kind in ("float32", "complex64")

    def write(library: Any) -> Any:
        base = library.from_numpy(values.copy()).to(getattr(library, kind)).requires_grad_(tracked)
        whole = base * 1 if tracked else base
        target = (whole[1] if part else whole.reshape(-1, *shape[1:])[: shape[0]]).permute(order)
        mask = library.from_numpy(holds.copy())
        try:
            target[(mask, *slices) if slices else mask] = value
        except (IndexError, RuntimeError, TypeError) as error:
            return type(error).__name__
        if tracked:
            (whole * whole).sum().real.backward()
        named = target.grad_fn.name() if tracked else None
        return repr(whole.tolist()), target.stride(), named, repr(base.grad.tolist()) if tracked else None

    assert write(ours) == write(torch)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    length=st.integers(1, 200), share=st.sampled_from((0.0, 0.03, 0.1, 0.5, 1.0)), step=st.integers(1, 2),
    kind=st.sampled_from(("float32", "int64", "float16", "uint8", "bool")), seed=st.integers(0, 1000),
)  # fmt: skip
def test_few_and_many_that_hold(device: str, length: int, share: float, step: int, kind: str, seed: int) -> None:
    """Devices look for those that hold where these are few, and at all flags where they are many."""
    numbers = np.random.default_rng(seed)
    values, holds = numbers.normal(size=length * step).astype("f4") * 9, numbers.random(length) < share

    def read(library: Any, on: str) -> Any:
        base = library.from_numpy(values.copy()).to(getattr(library, kind)).to(on)[::step]
        mask = library.from_numpy(holds.copy()).to(on)
        return base[mask].tolist(), mask.nonzero().tolist(), library.masked_select(base, mask).tolist()

    assert read(ours, device) == read(torch, "cpu")


@settings(deadline=None)
@given(
    viewed=st.booleans(), tracked=st.booleans(), followed=st.booleans(), way=st.sampled_from(("mask", "index", "put"))
)
def test_nothing_written_is_followed(viewed: bool, tracked: bool, followed: bool, way: str) -> None:
    def write(library: Any) -> Any:
        base = library.ones((2, 3))
        base = base.requires_grad_() * 1 if tracked else base
        target = base.permute(1, 0) if viewed else base
        value = library.ones((0, target.shape[1]), requires_grad=followed)
        if way == "mask":
            target[library.zeros(target.shape[0], dtype=library.bool)] = value
        elif way == "index":
            target[library.zeros(0, dtype=library.int64)] = value
        else:
            target.index_put_((library.zeros(0, dtype=library.int64),), value)
        named = [each.grad_fn and each.grad_fn.name() for each in (base, target)]
        if target.requires_grad:
            (target * target).sum().backward()
        return named, None if value.grad is None else tuple(value.grad.shape)

    assert write(ours) == write(torch)
