"""The first few in sorted order are those of a whole stable sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import webgpu_torch_core as core
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from webgpu_torch_backend_cpu import sorting
from webgpu_torch_backend_cpu.choices import MANY, select
from webgpu_torch_backend_cpu.sorting import LEAST_GROUPS, first_sorted, sorted_order

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.5, np.inf, -np.inf, np.nan])


@settings(max_examples=300, deadline=None)
@given(
    arrays.arrays(np.float32, arrays.array_shapes(min_dims=1, max_dims=2, max_side=40), elements=NUMBERS),
    st.integers(1, 40),
    st.booleans(),
)
def test_ties_and_nan(keys, limit, descending):
    limit = min(limit, keys.shape[-1])
    expected = sorted_order(keys, descending)[..., :limit]
    assert np.array_equal(first_sorted(keys, limit, descending), expected)


@settings(max_examples=200, deadline=None)
@given(
    st.data(),
    st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.int16, np.uint8, np.bool_]),
    st.tuples(st.integers(1, 3), st.integers(4 * LEAST_GROUPS, 1500)),
    st.sampled_from([2, 30, 10**6]),
)
def test_long_rows(data, kind, shape, different):
    """Of few different numbers and of many, with NaN and infinities in some of the rows."""
    limit, descending = data.draw(st.integers(1, shape[1] // 8)), data.draw(st.booleans())
    numbers = np.random.default_rng(data.draw(st.integers(0, 99)))
    with np.errstate(all="ignore"):
        keys = (numbers.integers(-different, different, shape) / 2).astype(kind)
    if np.dtype(kind).kind == "f":
        for value in data.draw(st.lists(NUMBERS, max_size=3)):
            share = data.draw(st.sampled_from([0.001, 0.5, 1.0]))
            keys[data.draw(st.integers(0, shape[0] - 1)), numbers.random(shape[1]) < share] = value
    expected = sorted_order(keys, descending)[..., :limit]
    assert np.array_equal(first_sorted(keys, limit, descending), expected)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_, np.float16])
def test_other_types(kind):
    keys = np.random.default_rng(0).integers(0, 5, (7, 100)).astype(kind)
    for descending in (False, True):
        assert np.array_equal(first_sorted(keys, 9, descending), sorted_order(keys, descending)[..., :9])


@settings(max_examples=100, deadline=None)
@given(
    arrays.arrays(np.float32, arrays.array_shapes(min_dims=1, max_dims=2, max_side=40), elements=NUMBERS),
    st.booleans(),
    st.integers(1, 40),
)
def test_order_is_that_of_merging(keys, descending, limit):
    wide = keys.astype(np.float64)
    assert np.array_equal(sorted_order(keys, descending, limit), sorted_order(wide, descending)[..., :limit])


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint8, np.uint32, np.bool_, np.float16])
def test_order_of_other_types(kind):
    keys = (
        np.random.default_rng(0).integers(-2 if kind in (np.int8, np.int16, np.int32) else 0, 3, (7, 100)).astype(kind)
    )
    keys[0, :2] = (0, 1) if kind == np.bool_ else (0, np.iinfo(kind).max if kind != np.float16 else np.inf)
    for descending in (False, True):
        assert np.array_equal(sorted_order(keys, descending), sorted_order(keys.astype(np.float64), descending))


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([np.float32, np.float64, np.int64, np.bool_, np.float16]), st.sampled_from([1, MANY]))
def test_values_chosen_by_masks_are_those_chosen_one_by_one(data, kind, length):
    shapes = st.sampled_from([(length,), (1,), (2, length), (2, 1), ()])
    numbers = np.random.default_rng(data.draw(st.integers(0, 99)))
    test = numbers.integers(0, 2, data.draw(shapes)).astype(bool)
    with np.errstate(invalid="ignore"):
        one, other = (
            (numbers.standard_normal(data.draw(shapes)) * data.draw(st.sampled_from([0, 1, np.nan]))).astype(kind)
            for _ in range(2)
        )
    found, expected = select(test, one, other), np.where(test, one, other)
    assert found.dtype == kind and np.array_equal(
        np.broadcast_to(found, expected.shape), expected, equal_nan=kind != np.bool_
    )
    assert not np.shares_memory(found, one) and not np.shares_memory(found, other)


@settings(max_examples=200, deadline=None)
@given(
    st.data(),
    st.sampled_from([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]),
    st.sampled_from([(4200,), (4, 1100), (2, 3, 700)]),
    st.integers(0, 63),
    st.booleans(),
    st.sampled_from([1, 1 << 16]),
)
def test_integers_by_their_digits(data, kind, shape, bits, descending, long_line):
    """Of few values and of many, at either end of what the type has."""
    limits = np.iinfo(kind)
    width = min(1 << bits, limits.max - limits.min)
    low = data.draw(st.sampled_from([limits.min, limits.max - width]) | st.integers(limits.min, limits.max - width))
    keys = np.random.default_rng(bits).integers(low, low + width, shape, kind, endpoint=True)
    expected = np.argsort(keys[..., ::-1] if descending else keys, axis=-1, kind="stable")
    if descending:
        expected = (shape[-1] - 1 - expected)[..., ::-1]
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(sorting, "LONG_LINE", long_line)
        assert np.array_equal(sorted_order(keys, descending), expected)


@settings(max_examples=200, deadline=None)
@given(
    arrays.arrays(np.float32, arrays.array_shapes(min_dims=1, max_dims=3, max_side=9), elements=NUMBERS),
    st.data(),
    st.sampled_from(["float32", "float64", "bfloat16", "int64"]),
)
def test_order_statistics(values, data, kind):
    """The element with a number and the median, wherever NaN is, are PyTorch's, and lie where their positions say."""
    if kind == "int64":
        values = np.where(np.isfinite(values), values, 7)
    theirs = torch.from_numpy(values).to(getattr(torch, kind))
    ours = core.tensor(theirs.tolist(), dtype=getattr(core, kind), device="cpu")
    dim, keepdim = data.draw(st.integers(0, values.ndim - 1)), data.draw(st.booleans())
    number = data.draw(st.integers(1, values.shape[dim]))
    for found, expected in (
        (ours.kthvalue(number, dim, keepdim), theirs.kthvalue(number, dim, keepdim)),
        (ours.median(dim, keepdim), theirs.median(dim, keepdim)),
    ):
        positions = torch.tensor(found.indices.tolist())
        if not theirs.isnan().any():
            # Of equal elements the one that a stable sort has there.
            order = theirs.sort(dim=dim, stable=True).indices
            place = number - 1 if found.__class__.__name__ == "kthvalue" else (values.shape[dim] - 1) // 2
            assert torch.equal(positions if not keepdim else positions.squeeze(dim), order.select(dim, place))
        taken = theirs.gather(dim, positions if keepdim else positions.unsqueeze(dim))
        taken = taken if keepdim else taken.squeeze(dim)
        for each in (taken, expected.values):
            torch.testing.assert_close(torch.tensor(found.values.tolist(), dtype=theirs.dtype), each, equal_nan=True)
