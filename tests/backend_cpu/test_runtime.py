"""What printed kernels call, against NumPy's plain functions: short and long arrays, numbers, strange values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import webgpu_torch_core as core
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import reductions, runtime

STRANGE = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 2.0**31, -(2.0**31), 2.0**63, 1e-45, 0.5])
SHAPES = st.sampled_from(
    [(3,), (5000,), (4, 1500), (1, 5000), (90, 64), (4000, 3), (2, 300, 20), (3, 512), (70, 2, 96), (4, 130, 9, 11)]
)


def drawn(shape: tuple[int, ...], seed: int, strange: bool) -> np.ndarray:
    generator = np.random.default_rng(seed)
    values = np.asarray(generator.normal(size=shape) * 100, np.float32)
    if strange:
        values[generator.random(shape) < 0.1] = generator.choice(STRANGE)
    return values


@settings(max_examples=40, deadline=None)
@given(
    SHAPES,
    st.integers(0, 99),
    st.sampled_from((0.0, 0.5, 1.0)),
    st.tuples(*[st.sampled_from("array row number".split())] * 3),
)
def test_drawn_choices(shape: tuple[int, ...], seed: int, share: float, kinds: tuple[str, ...]) -> None:
    test, one, other = (
        each if kind == "array" else each[:1] if kind == "row" else each.reshape(-1)[0]
        for kind, each in zip(
            kinds, (np.random.default_rng(seed).random(shape) < share, drawn(shape, seed, True), drawn(shape, seed + 1, True)), strict=True
        )
    )  # fmt: skip
    expected = np.where(test, one, other)
    # The result may take the memory of what is chosen from.
    for memory in (np.empty(expected.shape, expected.dtype), other.copy()):
        if memory.shape == expected.shape and memory.ndim:
            chosen = memory if np.array_equal(memory, other, equal_nan=True) else other
            assert runtime.select(test, one, chosen, False, memory) is memory
            np.testing.assert_array_equal(memory, expected)
    for views in (False, True):
        found = runtime.select(test, one, other, views)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected if test.ndim else np.array(one if test else other))
        assert not views or not any(np.shares_memory(found, each) for each in (one, other))


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 99), st.sampled_from(STRANGE.tolist()), st.sampled_from(STRANGE.tolist()))
def test_drawn_bounds(shape: tuple[int, ...], seed: int, least: float, most: float) -> None:
    values, bounds = drawn(shape, seed, True), (np.float32(least), np.float32(most))
    expected = torch.from_numpy(values).clamp(*bounds).numpy()
    np.testing.assert_array_equal(runtime.clip(values, *bounds), expected)
    assert runtime.clip(values, *bounds, out=values) is values
    np.testing.assert_array_equal(values, expected)


@settings(max_examples=40, deadline=None)
@given(SHAPES | st.just(()), st.integers(0, 99), st.booleans(), st.booleans(), st.integers(0, 3))
def test_drawn_sums(shape: tuple[int, ...], seed: int, strange: bool, turned: bool, count: int) -> None:
    values = drawn(shape, seed, strange)
    values = values.T if turned else values
    axes = tuple(range(values.ndim))[max(values.ndim - count, 0) :]
    with np.errstate(all="ignore"):
        found = reductions.total(values, axes, np.float32)
        wide = values.astype(np.float64)
        exact = np.add.reduce(wide, axis=axes, keepdims=True)
        magnitudes = np.add.reduce(np.abs(wide), axis=axes, keepdims=True)
    assert found.dtype == np.float32
    # Of what passes the largest number the order of the terms decides.
    same = (magnitudes < np.finfo(np.float32).max) | np.isnan(exact)
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.float64) - exact)
    # A group's sum has at most one rounding a term, of at most the sum of the terms' magnitudes; the result has one more.
    bound = 2.0**-24 * (reductions.GROUP * magnitudes + np.abs(exact)) + 2.0**-149
    assert np.array_equal(np.isnan(found)[same], np.isnan(exact)[same])
    assert (error <= bound)[same & ~np.isnan(exact)].all()


@settings(max_examples=40, deadline=None)
@given(SHAPES | st.just(()), st.integers(0, 99), st.booleans(), st.integers(0, 3))
def test_drawn_products(shape: tuple[int, ...], seed: int, turned: bool, count: int) -> None:
    signs, powers = np.random.default_rng(seed).integers(0, 2, (2, *shape))
    # Numbers near 1, so that no product leaves the range of doubles.
    values = np.asarray((1 - 2 * signs) * (1 + powers * 2.0**-9), np.float32)
    values = values.T if turned else values
    axes = tuple(range(values.ndim))[max(values.ndim - count, 0) :]
    found = reductions.multiplied(values, axes, np.float64)
    expected = np.multiply.reduce(values.astype(np.float64), axis=axes, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=values.size * 2.0**-52)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 99), st.booleans())
def test_drawn_conversions(shape: tuple[int, ...], seed: int, strange: bool) -> None:
    values = drawn(shape, seed, strange)
    theirs = torch.from_numpy(values)
    with np.errstate(all="ignore"):
        for kind in ("int8", "int16", "int32", "int64", "uint8"):
            expected = theirs.to(getattr(torch, kind)).numpy()
            # Where the number does not fit, PyTorch's vector instructions and its others differ.
            fits = np.abs(values) < (2.0**31 if kind != "int64" else 2.0**63)
            found = runtime.to_integer(values, np.dtype(kind).type)
            assert np.array_equal(found[fits], expected[fits])
            with pytest.MonkeyPatch.context() as patch:
                # A processor that converts otherwise what does not fit.
                patch.setattr(runtime, "_truncates", lambda *_: False)
                assert np.array_equal(runtime.to_integer(values, np.dtype(kind).type), found)
        bits = theirs.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        assert np.array_equal(runtime.to_bfloat16(values)[~np.isnan(values)], bits[~np.isnan(values)])
        assert np.isnan(runtime.from_bfloat16(runtime.to_bfloat16(values)))[np.isnan(values)].all()


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["int8", "uint8", "int32", "int64"]),
    st.integers(-9, 9).filter(bool),
    st.integers(0, 99),
    st.booleans(),
)
def test_drawn_remainders_by_one_number(kind: str, by: int, seed: int, strange: bool) -> None:
    limits = np.iinfo(kind)
    values = np.random.default_rng(seed).integers(limits.min, limits.max, 5000, kind, endpoint=True)
    if strange:
        values[:2] = limits.min, limits.max
    divisor = np.dtype(kind).type(abs(by) if limits.min == 0 else by)
    with np.errstate(all="ignore"):
        assert np.array_equal(runtime.remainder(values, divisor), np.remainder(values, divisor))


@settings(max_examples=150, deadline=None)
@given(
    st.permutations(range(4)),
    st.integers(0, 2),
    st.integers(0, 99),
    st.sampled_from(["multiples", "any", "few", "one"]),
    st.booleans(),
    st.sampled_from([1, 1, 4096]),
)
def test_drawn_rows(order: list[int], computed: int, seed: int, where: str, into: bool, many: int) -> None:
    """Rows over axes of an array in any order, at starts of other axes, one after another or in one call."""
    generator = np.random.default_rng(seed)
    sizes, steps = [3, 4, 5, 6], [120, 30, 6, 1]
    shape = [sizes[axis] for axis in order]
    strides = [steps[axis] for axis in order]
    data = generator.random(2000, np.float32)
    apart = sorted(generator.choice(4, computed, replace=False).tolist())
    row = tuple(axis for axis in range(4) if axis not in apart)
    span = sum((shape[axis] - 1) * strides[axis] for axis in row)
    source = np.lib.stride_tricks.as_strided(
        data, (2000 - span, *(shape[axis] for axis in row)), (4, *(4 * strides[axis] for axis in row))
    )
    step = source.shape[-1] if source.strides[-1] == 4 or not apart else strides[apart[0]]
    highest = {"multiples": (len(source) - 1) // step + 1, "any": len(source), "few": 7, "one": 1}[where]
    first = generator.integers(0, highest, [shape[axis] if axis in apart else 1 for axis in range(4)], np.int32)
    if where == "multiples":
        first = first * step
    place = np.broadcast_to(first, shape) + sum(
        (np.arange(shape[axis]) * strides[axis]).reshape([-1 if each == axis else 1 for each in range(4)])
        for axis in row
    )
    out = np.empty(shape, np.float32) if into else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "MANY", many)
        found = runtime.rows(source, first, row, 4, out=out)
    assert np.array_equal(found, data[place]) and (out is None or found is out)


@pytest.mark.parametrize("kind", ["float32", "int64", "bool"])
@pytest.mark.parametrize("how", [np.add, np.maximum, np.minimum])
def test_lines_side_by_side_come_to_what_each_comes_to(how, kind):
    drawn = np.random.default_rng(0).normal(size=(40, 3, runtime.LINES)).astype(kind)
    if kind == "float32":
        drawn[drawn > 2] = np.nan
    lines = drawn.transpose(1, 2, 0)
    assert runtime._side_by_side(lines) and not runtime._side_by_side(np.ascontiguousarray(lines))
    wide = np.dtype("float64" if kind == "float32" else kind).type
    together = runtime.accumulated(how, lines, wide)
    np.testing.assert_array_equal(together, runtime.accumulated(how, np.ascontiguousarray(lines), wide))
    for values in (lines, np.ascontiguousarray(lines)):
        for of in (wide, np.dtype(kind).type):
            into = np.empty(lines.shape[::-1], of).T
            assert runtime.accumulated(how, values, wide, out=into) is into
            np.testing.assert_array_equal(into, together.astype(of))
    flags = drawn > 0
    flags[0] = True
    flags = flags.transpose(1, 2, 0)
    np.testing.assert_array_equal(runtime.latest(flags), runtime.latest(np.ascontiguousarray(flags)))


def test_few_long_rows_are_those_of_many():
    data = np.random.default_rng(0).random(9000)
    source = np.lib.stride_tricks.as_strided(data, (8000, 600), (8, 8))
    first = np.array([[7], [0], [3000], [7]], np.int32)
    expected = np.stack([data[start : start + 600] for start in first[:, 0]])
    assert first.size <= runtime.FEW_ROWS and expected.size <= runtime.FEW_ELEMENTS
    into = np.empty_like(expected)
    np.testing.assert_array_equal(runtime.rows(source, first, (1,), 2), expected)
    runtime.rows(source, first, (1,), 2, out=into)
    np.testing.assert_array_equal(into, expected)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_products_of_few_rows(batch, kind):
    generator = np.random.default_rng(0)
    few, lines = (generator.integers(-9, 9, (*batch, size, 40)).astype(kind) for size in (5, 70))
    expected = np.einsum("...mk,...nk->...mn", few, lines)
    for left in (few, np.ascontiguousarray(few.swapaxes(-1, -2)).swapaxes(-1, -2)):
        for right in (lines.swapaxes(-1, -2), np.ascontiguousarray(lines.swapaxes(-1, -2))):
            found = runtime.product(left, right)
            np.testing.assert_array_equal(found, expected)
            assert found.flags.c_contiguous
            into = np.empty_like(expected)
            runtime.product(left, right, out=into)
            np.testing.assert_array_equal(into, expected)


def test_linear_layers_of_small_batches_take_the_matrix_first(monkeypatch):
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "0")
    seen = []
    product = runtime.product
    monkeypatch.setattr(runtime, "product", lambda *given, **named: seen.append(1) or product(*given, **named))
    torch.manual_seed(0)
    weight, bias = torch.randn(1024, 260), torch.randn(1024)
    with core.device("cpu"):
        ours = [core.tensor(each.tolist()) for each in (weight, bias)]
        for rows, expected in ((1, 0), (8, 1), (65, 1)):
            x = torch.randn(rows, 260)
            found = core.functional.linear(core.tensor(x.tolist()), *ours).tolist()
            torch.testing.assert_close(
                torch.tensor(found), torch.nn.functional.linear(x, weight, bias), rtol=1e-4, atol=1e-4
            )
            assert len(seen) == expected
