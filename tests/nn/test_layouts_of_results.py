"""Orders in memory of what convolutions and pools return, which kernel PyTorch's rule names, and oneDNN's layout: drawn, next to PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nn_oracle import to_ours

ORDERS = ("contiguous_format", "channels_last", "channels_last_3d")
#: PyTorch leaves these contiguous, or does not compute them in every type
POOLS = ("avg_pool2d", "max_pool2d", "max_pool3d", "adaptive_avg_pool2d", "adaptive_max_pool2d")


def order_of(value: Any, library: Any) -> list[bool]:
    names = ORDERS[:1] if value.ndim not in (4, 5) else (ORDERS[0], ORDERS[value.ndim - 3])
    return [value.is_contiguous(memory_format=getattr(library, name)) for name in names]


@st.composite
def images(draw: st.DrawFn, spatial: int) -> tuple[tuple[int, ...], bool]:
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 4)), *(draw(st.integers(4, 6)) for _ in range(spatial)))
    return shape, draw(st.booleans())


def both(shape: tuple[int, ...], last: bool) -> list[Any]:
    found: list[Any] = []
    plain = torch.rand(shape)
    for library, value in ((torch, plain), (ours, to_ours(plain))):
        order = getattr(library, ORDERS[len(shape) - 3] if last else ORDERS[0])
        found.append(value.to(memory_format=order))
    return found


@settings(max_examples=30, deadline=None)
@given(data=st.data(), spatial=st.sampled_from([2, 3]), taps=st.sampled_from([1, 3]), transposed=st.booleans())
def test_convolutions_keep_channels_last(data: st.DataObject, spatial: int, taps: int, transposed: bool) -> None:
    (shape, last), weight_last = data.draw(images(spatial)), data.draw(st.booleans())
    other = data.draw(st.integers(1, 3))
    # Single volumes and taps go to a kernel of PyTorch's that knows one order.
    assume(spatial == 2 or (shape[0] > 1 and taps > 1))
    lead = (shape[1], other) if transposed else (other, shape[1])
    inputs, weights = both(shape, last), both((*lead, *(taps,) * spatial), weight_last)
    assert list(inputs[1].stride()) == list(inputs[0].stride())
    name = f"conv{'_transpose' if transposed else ''}{spatial}d"
    results = [
        getattr(library.nn.functional, name)(value, weight)
        for library, value, weight in zip((torch, ours), inputs, weights, strict=True)
    ]
    assert order_of(results[1], ours) == order_of(results[0], torch)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), name=st.sampled_from(POOLS), size=st.integers(1, 3), indices=st.booleans())
def test_pools_keep_channels_last(data: st.DataObject, name: str, size: int, indices: bool) -> None:
    given_indices = {"return_indices": True} if indices and "max" in name else {}
    found = both(*data.draw(images(int(name[-2]))))
    results = []
    for library, value in zip((torch, ours), found, strict=True):
        result = getattr(library.nn.functional, name)(value, size, **given_indices)
        several = result if isinstance(result, tuple) else (result,)
        results.append([(order_of(each, library), str(each.dtype)) for each in several])
    assert results[0] == results[1]


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(), name=st.sampled_from(["avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"]),
    spatial=st.integers(1, 3), kind=st.sampled_from(["bool", "uint8", "int16", "int32", "int64", "float32"]),
    indices=st.booleans(), size=st.integers(1, 3),
)  # fmt: skip
def test_pools_refuse_what_pytorch_refuses(
    data: st.DataObject, name: str, spatial: int, kind: str, indices: bool, size: int
) -> None:
    # Which types of nothing are refused differs from kernel to kernel.
    sizes = st.integers(int(kind != "float32"), 4)
    shape = data.draw(st.lists(sizes, min_size=spatial + 1, max_size=spatial + 2))
    answers = []
    for library in (torch, ours):
        value = library.ones(shape).to(getattr(library, kind))
        options = {"return_indices": True} if indices and "max" in name else {}
        try:
            result = getattr(library.nn.functional, f"{name}{spatial}d")(value, size, **options)
            answers.append([tuple(each.shape) for each in (result if isinstance(result, tuple) else (result,))])
        except (RuntimeError, ValueError):
            answers.append("refused")
    assert answers[0] == answers[1]


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_results_without_places_have_no_gradient(spatial: int) -> None:
    for kind in ("avg", "max"):
        for library in (torch, ours):
            value = library.ones((2, 3, *(4,) * spatial), requires_grad=True)
            empty = getattr(library.nn.functional, f"adaptive_{kind}_pool{spatial}d")(value, 0)
            with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size"):
                empty.sum().backward()


def test_indices_may_not_change_before_the_backward_pass() -> None:
    for name in ("max_pool2d", "adaptive_max_pool2d"):
        value = ours.rand(1, 2, 6, 6, requires_grad=True)
        result, indices = getattr(ours.nn.functional, name)(value, 3, return_indices=True)
        indices += 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_unpooling_refuses_positions_outside() -> None:
    values, indices = ours.ones(1, 1, 2, 2), ours.tensor([[[[0, 3], [12, 35]]]])
    with pytest.raises(RuntimeError, match="Found an invalid max index"):
        ours.nn.functional.max_unpool2d(values, indices, 2)
    assert ours.nn.functional.max_unpool2d(values, indices, 3).shape == (1, 1, 6, 6)
    with pytest.raises(RuntimeError, match="should be type int64"):
        ours.nn.functional.max_unpool2d(values, indices.int(), 3)
    with pytest.raises(RuntimeError, match="There should be exactly 3 elements"):
        ours.nn.functional.max_unpool3d(ours.ones(1, 3, 1, 1, 1), ours.zeros(1, 3, 1, 1, 1, dtype=ours.int64), [1, 1])


def test_unpooling_is_refused_where_algorithms_are_to_be_deterministic() -> None:
    values, indices = ours.ones(1, 1, 2, 2), ours.zeros(1, 1, 2, 2, dtype=ours.int64)
    ours.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="max_unpooling2d_forward_out does not have a deterministic"):
            ours.nn.functional.max_unpool2d(values, indices, 2)
        ours.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="max_unpooling2d_forward_out does not have a deterministic"):
            ours.nn.functional.max_unpool2d(values, indices, 2)
    finally:
        ours.use_deterministic_algorithms(False)


def test_a_window_of_padding_only_has_the_lowest_maximum() -> None:
    for library in (torch, ours):
        result = library.nn.functional.max_pool1d(library.ones(2, 1), 2, None, 1, 2)
        assert result.tolist() == [[float("-inf")]] * 2


@settings(max_examples=80, deadline=None)
@given(
    st.data(), st.integers(1, 3), st.booleans(), st.sampled_from(["float32", "float64"]), st.booleans(), st.integers(1, 3),
    st.booleans(),
)  # fmt: skip
def test_the_rule_that_names_kernels_is_pytorchs(
    data: st.DataObject, spatial: int, transposed: bool, kind: str, enabled: bool, groups: int, opaque: bool
) -> None:
    def several(*values: int) -> list[int]:
        return [data.draw(st.sampled_from(values)) for _ in range(spatial)]

    count = data.draw(st.sampled_from([0, 1, 1, 2, 15, 16]))
    channels = groups * data.draw(st.sampled_from([0, 1, 2, 12]))
    taps, sizes = several(1, 1, 3, 4), several(7, 8, 9) if spatial == 3 else several(7, 9, 40)
    stride, dilation = several(1, 1, 2), several(1, 1, 2)
    after = several(0, 0, 1) if transposed else [0] * spatial
    weight = (channels, 4) if transposed else (4 * groups, channels // groups)
    answers = []
    for library in (torch, ours):
        value = library.zeros((count, channels, *sizes), dtype=getattr(library, kind))
        value = value.to_mkldnn() if opaque and kind == "float32" and enabled else value
        before = library.get_num_threads()
        library.set_num_threads(1)
        try:
            with library.backends.mkldnn.flags(enabled=enabled, allow_tf32=None):
                found = library._C._select_conv_backend(
                    value, library.zeros((*weight, *taps), dtype=value.dtype), None, stride, [0] * spatial, dilation, transposed,
                    after, groups,
                ).name  # fmt: skip
        except RuntimeError as error:
            # A weight without output channels of a group is no weight of a convolution to PyTorch.
            assume("expected weight to be at least" not in str(error) and "unsupported" not in str(error))
            raise
        finally:
            library.set_num_threads(before)
        # PyTorch's own enumeration leaves one name out.
        answers.append("MkldnnTranspose" if found == "???" else found)
    assume(not (answers[0].startswith("Slow") and opaque and kind == "float32" and enabled))
    assert answers[0] == answers[1]


def test_opaque_tensors_compute_and_come_back() -> None:
    value = ours.rand(2, 3, 5, 5, requires_grad=True)
    opaque = value.to_mkldnn()
    assert opaque.layout is ours._mkldnn
    assert opaque.is_mkldnn
    assert repr(opaque).endswith("layout=torch._mkldnn)")
    result = ours.nn.functional.conv2d(opaque, ours.ones(1, 3, 2, 2))
    assert result.is_mkldnn
    dense = result.to_dense()
    assert dense.layout is ours.strided
    dense.sum().backward()
    assert value.grad is not None
    assert value.grad.layout is ours.strided
    assert value.grad[0, 0, 2, 2].item() == 4.0
    for refused in (lambda: opaque[0], lambda: opaque.view(-1), opaque.data_ptr, opaque.numpy):
        with pytest.raises((RuntimeError, TypeError)):
            refused()
    for wrong in (ours.ones(1, dtype=ours.float64), ours.ones((1,) * 6), ours.ones(1, dtype=ours.int32)):
        with pytest.raises(RuntimeError, match="dense_to_mkldnn expects|number of dimensions > 5"):
            wrong.to_mkldnn()


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_convolution_by_the_number_of_sizes(spatial: int, transposed: bool, bias: bool, double: bool) -> None:
    x, w = torch.rand(2, 2, *(6,) * spatial), torch.rand(2, 2, *(3,) * spatial)
    b, step = torch.rand(2) if bias else None, [2 if double else 1] * spatial
    rest = (step, [1] * spatial, [1] * spatial, transposed, [0] * spatial, 1)
    expected = torch.convolution(x, w, b, *rest)
    found = ours.convolution(to_ours(x), to_ours(w), None if b is None else to_ours(b), *rest)
    torch.testing.assert_close(torch.tensor(found.tolist()), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError):
        ours.convolution(ours.ones(2, 2), ours.ones(2, 2), None, [], [], [], False, [], 1)
