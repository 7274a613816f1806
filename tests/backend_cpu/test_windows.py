"""Convolutions of every shape through windows: values and gradients are PyTorch's, and nothing dense is made of groups."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
import webgpu_torch_core as core
from hypothesis import example, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import channels, contracting, rows


@st.composite
def convolutions(draw):
    """Draw the shapes and options of a convolution that has a result."""
    dimensions = draw(st.sampled_from([1, 2, 2, 3]))
    groups, per_group = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 2, 3]))
    taps = draw(st.lists(st.integers(1, 5 if dimensions < 3 else 3), min_size=dimensions, max_size=dimensions))
    padding = draw(st.lists(st.integers(0, 2), min_size=dimensions, max_size=dimensions))
    dilation = draw(st.sampled_from([1, 1, 2]))
    stride = draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=dimensions, max_size=dimensions))
    least = [max(dilation * (size - 1) + 1 - 2 * pad, 1) for size, pad in zip(taps, padding, strict=True)]
    sizes = [low + draw(st.integers(0, 5)) for low in least]
    out = groups * draw(st.sampled_from([1, 2, 3, 9]))
    shape = (draw(st.integers(1, 3)), groups * per_group, *sizes)
    options = {"stride": tuple(stride), "padding": tuple(padding), "dilation": dilation, "groups": groups}
    return (
        shape,
        (out, per_group, *taps),
        options,
        draw(st.booleans()),
        draw(st.sampled_from(["float32", "float64", "float16"])),
    )


def run(library, data, options, transposed, kind):
    """Return the result and the gradients as nested lists."""
    tensors = [library.tensor(each.tolist(), dtype=getattr(library, kind)).requires_grad_() for each in data]
    name = f"conv{'_transpose' if transposed else ''}{data[0].ndim - 2}d"
    result = getattr(library.nn.functional if library is torch else library.functional, name)(*tensors, **options)
    (result * result).sum().backward()
    return [each.detach().tolist() for each in (result, *(each.grad for each in tensors))]


@settings(max_examples=40, deadline=None)
@given(convolutions())
@example(((1, 1, 9), (1, 1, 3), {"stride": 1, "padding": 1, "dilation": 1, "groups": 1}, False, "float32"))
@example(((1, 3, 9, 8), (3, 1, 3, 3), {"stride": 1, "padding": 1, "dilation": 1, "groups": 3}, False, "float16"))
def test_values_and_gradients(case):
    shape, weight, options, turned, kind = case
    torch.manual_seed(0)
    data = [torch.randn(shape), torch.randn(weight)]
    if turned:
        # The other way: what went out comes in.
        data[0] = torch.randn((shape[0], weight[0], *shape[2:]))
        if any((size - 1) * step - 2 * pad + options["dilation"] * (taps - 1) + 1 < 1 for size, pad, taps, step in zip(
            shape[2:], options["padding"], weight[2:], options["stride"], strict=True)):  # fmt: skip
            return
    rough = {"rtol": 2e-2, "atol": 0.5} if kind == "float16" else {"rtol": 1e-4, "atol": 1e-3}
    with core.device("cpu"):
        actual = run(core, data, options, turned, kind)
    for mine, theirs in zip(actual, run(torch, data, options, turned, kind), strict=True):
        torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), **rough)


@pytest.mark.parametrize("limit", [1, 1 << 10])
def test_pieces_of_any_size_add_up(monkeypatch, limit):
    monkeypatch.setattr(contracting, "PATCH_BYTES", limit)
    monkeypatch.setattr(channels, "SHIFTED_BYTES", limit)
    monkeypatch.setattr(contracting, "PADDED_BYTES", limit)
    monkeypatch.setattr(rows, "LINE_BYTES", limit)
    torch.manual_seed(1)
    for groups in (1, 2, 4):
        data = [torch.randn(2, 4, 7, 9), torch.randn(8 if groups < 4 else 4, 4 // groups, 3, 2)]
        options = {"stride": 1, "padding": 1, "groups": groups}
        with core.device("cpu"):
            actual = run(core, data, options, False, "float32")
        for mine, theirs in zip(actual, run(torch, data, options, False, "float32"), strict=True):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), rtol=1e-4, atol=1e-3)


def test_depthwise_gradients_take_little_memory():
    with core.device("cpu"):
        # What is imported at the first call, by a thread that compiles too, is no memory of gradients.
        first = core.ones(2, 1, 3, 3, requires_grad=True)
        core.functional.conv2d(core.ones(1, 2, 14, 14), first, padding=1, groups=2).sum().backward()
        assert first.grad[0, 0, 1, 1].item() == 196.0
        x, w = core.ones(1, 512, 14, 14, requires_grad=True), core.ones(512, 1, 3, 3, requires_grad=True)
        tracemalloc.start()
        core.functional.conv2d(x, w, padding=1, groups=512).sum().backward()
        assert w.grad[0, 0, 1, 1].item() == 196.0 and x.grad[0, 0, 0, 0].item() == 4.0
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # The input has 400 kB; its patches would have nine times that, products across channels 500 times.
    assert peak < 8 * 4 * x.numel()


@st.composite
def windows(draw):
    """Draw the source of a window over channels, what slides over which of its axes, and how far apart taps are."""
    places = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    taps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=len(places)))
    apart = draw(st.integers(1, 2))
    sizes = [size + apart * (tap - 1) for size, tap in zip(places[::-1], taps[::-1], strict=False)][::-1]
    shape = (draw(st.integers(1, 5)), *places[: len(places) - len(taps)], *sizes)
    order = draw(st.permutations(range(1, len(shape))))
    return shape, tuple(taps), apart, (0, *order), draw(st.lists(st.booleans(), min_size=len(taps), max_size=len(taps)))


@settings(max_examples=150, deadline=None)
@given(windows(), st.sampled_from([1, 1 << 10, 1 << 20]), st.integers(2, 5), st.booleans())
def test_rows_of_places(case, limit, most, wide):
    """Sums by rows, of which some channels or a part of one are worked on at a time; no number but those of a window counts."""
    shape, taps, apart, order, turned = case
    generator, kind = np.random.default_rng(0), np.float64 if wide else np.float32
    memory = generator.standard_normal([shape[axis] for axis in order]).astype(kind)
    source, left = memory.transpose(np.argsort(order)), generator.standard_normal((shape[0], *taps)).astype(kind)
    axes = tuple(range(len(shape) - len(taps), len(shape)))
    reach = [apart * (tap - 1) + 1 for tap in taps]
    window = np.lib.stride_tricks.sliding_window_view(source, reach, axes)[
        (..., *(slice(None, None, apart),) * len(taps))
    ]
    for axis, is_turned in enumerate(turned):
        if is_turned:
            window, left = np.flip(window, len(shape) + axis), np.flip(left, 1 + axis)
    letters = "xyz"[: len(taps)]
    expected = np.einsum(f"c...{letters},c{letters}->c...", window, left)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "LINE_BYTES", limit)
        patch.setattr(rows, "MOST_ROWS", most)
        found = rows.contract(left, window)
        if found is None:
            return
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        given_to = np.empty_like(found)
        assert rows.contract(left, window, given_to) is given_to
        np.testing.assert_array_equal(given_to, found)
        memory[(*(size // 2 for size in memory.shape),)] = np.inf
        with np.errstate(invalid="ignore"):
            found, expected = rows.contract(left, window), np.einsum(f"c...{letters},c{letters}->c...", window, left)
        # Where a product has one row, nothing is multiplied by 0.
        assert found is None or np.isinf(found).sum() == np.isinf(expected).sum()


@pytest.mark.parametrize(
    ("size", "taps"), [((9, 11), (3, 3)), ((9, 11), (1, 5)), ((9, 11), (5, 1)), ((1, 40), (1, 3)), ((5, 9), (2, 4))]
)
def test_windows_that_rows_are_good_for(size, taps):
    source = np.ones((2, 3, *size), np.float32)
    window = np.lib.stride_tricks.sliding_window_view(source, taps, (2, 3))
    assert rows.contract(np.ones((2, *taps), np.float32), window) is not None


@pytest.mark.parametrize(("length", "stride", "dilation"), [(28, 1, 1), (28, 2, 1), (33, 1, 2), (14, 1, 1)])
def test_channels_alone(length, stride, dilation):
    """Depthwise convolutions through tiles; what is not finite stays inside of its windows."""
    torch.manual_seed(0)
    data = [torch.randn(2, 3, 9, length), torch.randn(3, 1, 3, 5)]
    options = {"stride": stride, "padding": 2, "dilation": dilation, "groups": 3}
    for value in (0.5, float("inf"), float("nan")):
        data[0][1, 2, 4, 6] = value
        with core.device("cpu"):
            actual = run(core, data, options, False, "float32")
        expected = run(torch, data, options, False, "float32")
        # (Between the places of a strided convolution's gradient lie zeros, which are multiplied too.)
        kept = range(3) if value == 0.5 or stride == 1 else (0, 2)
        for number in kept:
            one, other = torch.tensor(actual[number]), torch.tensor(expected[number])
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3, equal_nan=True)
