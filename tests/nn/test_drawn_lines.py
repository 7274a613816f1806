"""Windows that slide over lines ``[n, c, length]`` lay out what they find as PyTorch, to which lines are images of one row; losses of
two shapes, embeddings and pads of theirs go PyTorch's way.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

BOTH: tuple[Any, Any] = (webgpu_torch, torch)
LAYOUTS = ("rows", "columns", "expanded", "one channel", "one place")
FUNCTIONS: dict[str, Any] = {
    "conv": lambda t, x, w: t.nn.functional.conv1d(x, w),
    "padded": lambda t, x, w: t.nn.functional.conv1d(x, w, t.ones(4), padding=1),
    "depthwise": lambda t, x, w: t.nn.functional.conv1d(x, t.ones(x.shape[1], 1, 1), groups=x.shape[1]),
    "transposed": lambda t, x, w: t.nn.functional.conv_transpose1d(x, w.transpose(0, 1), stride=2),
    "alone": lambda t, x, w: t.nn.functional.conv1d(x[0], w),
    "avg_pool": lambda t, x, w: t.nn.functional.avg_pool1d(x, 1),
    "max_pool": lambda t, x, w: t.nn.functional.max_pool1d(x, 1),
    "places": lambda t, x, w: t.nn.functional.max_pool1d(x, 1, return_indices=True)[1],
    "lp_pool": lambda t, x, w: t.nn.functional.lp_pool1d(x, 2, 1),
    "adaptive_avg_pool": lambda t, x, w: t.nn.functional.adaptive_avg_pool1d(x, 2),
    "adaptive_max_pool": lambda t, x, w: t.nn.functional.adaptive_max_pool1d(x, 2),
    "area": lambda t, x, w: t.nn.functional.interpolate(x, 2, mode="area"),
    "nearest": lambda t, x, w: t.nn.functional.interpolate(x, 12, mode="nearest"),
    "batch_norm": lambda t, x, w: t.nn.functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda t, x, w: t.nn.functional.group_norm(x, 1),
}  # fmt: skip


def lines(t: Any, layout: str) -> Any:
    if layout == "columns":
        return t.arange(36.0).reshape(2, 6, 3).transpose(1, 2)
    if layout == "expanded":
        return t.arange(12.0).reshape(2, 1, 6).expand(2, 3, 6)
    if layout == "one channel":
        return t.arange(12.0).reshape(2, 6, 1).transpose(1, 2)
    return t.arange(6.0).reshape(2, 1, 3).transpose(1, 2) if layout == "one place" else t.arange(36.0).reshape(2, 3, 6)


def steps(tensor):
    """Return the strides that tell something: a dimension of one element leads nowhere."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(FUNCTIONS)), st.sampled_from(LAYOUTS), st.booleans(), st.booleans())
def test_order_of_lines_in_memory(name: str, layout: str, turned: bool, tracked: bool) -> None:
    found = []
    for t in BOTH:
        x = lines(t, layout)
        leaf = x.detach().clone(memory_format=t.preserve_format).requires_grad_(tracked)
        taps = 1 if layout == "one place" else 3
        weight = t.ones(4, x.shape[1], taps)
        weight = weight.transpose(1, 2).contiguous().transpose(1, 2) if turned else weight
        result = FUNCTIONS[name](t, leaf, weight)
        seen = [tuple(result.shape), steps(result)]
        if tracked and result.requires_grad:
            result.sum().backward()
            seen.append(steps(leaf.grad))
        found.append(seen)
    assert found[0] == found[1]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["l1_loss", "smooth_l1_loss", "mse_loss", "huber_loss"]),
    st.sampled_from(["float32", "float64"]), st.sampled_from([(), (1,), (3,), (2, 3)]), st.sampled_from(["none", "mean"]),
)  # fmt: skip
def test_losses_of_two_shapes(name: str, kind: str, shape: tuple[int, ...], reduction: str) -> None:
    found = []
    for t in BOTH:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                loss = getattr(t.nn.functional, name)(
                    t.ones(2, 3), t.full(shape, 3.0, dtype=getattr(t, kind)), reduction=reduction
                )
            except RuntimeError as error:
                found.append(("RuntimeError", str(error)))
                continue
        found.append((str(loss.dtype), tuple(loss.shape), loss.tolist(), [str(each.message) for each in said]))
    assert str(found[0]).replace("webgpu_torch", "torch") == str(found[1])


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["sum", "mean", "max"]), st.booleans())
def test_bags_of_exchanged_arguments(mode: str, exchanged: bool) -> None:
    found = []
    for t in BOTH:
        given_ = (t.tensor([[0, 2], [1, 1]]), t.arange(6.0).reshape(3, 2))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = t.nn.functional.embedding_bag(*(given_[::-1] if exchanged else given_), mode=mode)
        found.append((result.tolist(), [str(each.message) for each in said]))
    assert found[0] == found[1]


@pytest.mark.parametrize("wrong", [float("nan"), -0.5, 1.5, float("inf")])
@pytest.mark.parametrize("of_input", [True, False])
def test_probabilities_are_looked_at_at_once(wrong: float, of_input: bool) -> None:
    messages = []
    for t in BOTH:
        right, other = t.tensor([0.5, 0.25]), t.tensor([0.5, wrong])
        with pytest.raises(RuntimeError) as raised:
            t.nn.functional.binary_cross_entropy(*((other, right) if of_input else (right, other)))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(0,), (2, 0), (0, 3), (3, 0, 2)]), st.sampled_from(["exp", "flip", "add", "clone", "mul"]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_gradients_of_nothing(shape: tuple[int, ...], name: str, wide: bool, summed: bool) -> None:
    found = []
    for t in BOTH:
        whole = t.ones(*shape[:-1], shape[-1] * 2 + 1)
        x = (whole[..., 1::2][..., : shape[-1]] if wide else t.ones(shape)).detach().requires_grad_()
        y = {
            "exp": x.exp,
            "clone": x.clone,
            "flip": lambda x=x: x.flip(0),
            "add": lambda x=x: x + 1,
            "mul": lambda x=x: x * x,
        }[name]()
        y.sum().backward() if summed else y.backward(t.ones(()).expand(y.shape))
        found.append((tuple(x.grad.shape), x.grad.stride()))
    assert found[0] == found[1]


@pytest.mark.parametrize("turned", [False, True])
def test_views_that_are_copied_need_not_be_views(turned: bool) -> None:
    found = []
    for t in BOTH:
        x = t.arange(6.0).reshape(2, 3)
        result = t.view_copy(x.t() if turned else x, (6,))
        found.append((result.tolist(), result.stride()))
    assert found[0] == found[1]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([(0, 1), (1, 2), (-2, -1), (2, 0)]), st.sampled_from([-1, 0, 2]))
def test_diagonals_lie_in_rows(dims: tuple[int, int], offset: int) -> None:
    found = []
    for t in BOTH:
        result = t.diag_embed(t.arange(6.0).reshape(2, 3), offset, *dims)
        found.append((result.tolist(), result.stride()))
    assert found[0] == found[1]
