"""Strides of what functions of images and volumes return, and of their gradients, for inputs in any order in memory, next to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nn_oracle import to_ours

Call = Callable[[Any, Any], Any]


def _numbers(library: Any, *shape: int) -> Any:
    return library.linspace(-1.0, 1.0, int(torch.Size(shape).numel())).reshape(shape)


def _channels(library: Any, value: Any) -> Any:
    return _numbers(library, value.shape[1])


def _per_rank(name: str, *args: Any, **named: Any) -> Call:
    return lambda library, x: getattr(library.nn.functional, f"{name}{x.ndim - 2}d")(x, *args, **named)


def _of(name: str, *args: Any, **named: Any) -> Call:
    return lambda library, x: getattr(library.nn.functional, name)(x, *args, **named)


def _normalised(training: bool, affine: bool) -> Call:
    def call(library: Any, x: Any) -> Any:
        channels, affinity = x.shape[1], (_channels(library, x),) * 2 if affine else ()
        return library.nn.functional.batch_norm(
            x, library.zeros(channels), library.ones(channels), *affinity, training=training
        )

    return call


def _convolved(name: str, taps: int, **named: Any) -> Call:
    def call(library: Any, x: Any) -> Any:
        channels, spatial = x.shape[1], x.ndim - 2
        weight = _numbers(library, channels, channels, *(taps,) * spatial)
        return getattr(library.nn.functional, f"{name}{spatial}d")(x, weight, **named)

    return call


#: functions of [n, c, sizes…]
FUNCTIONS: dict[str, Call] = {
    "batch_norm in training": _normalised(True, True),
    "batch_norm in training, plain": _normalised(True, False),
    "batch_norm": _normalised(False, True),
    "batch_norm, plain": _normalised(False, False),
    "group_norm": lambda library, x: library.nn.functional.group_norm(x, 2, _channels(library, x)),
    "group_norm, plain": _of("group_norm", 2),
    "instance_norm": _of("instance_norm"),
    "instance_norm of statistics": lambda library, x: library.nn.functional.instance_norm(
        x, library.zeros(x.shape[1]), library.ones(x.shape[1]), use_input_stats=False
    ),
    "layer_norm": lambda library, x: library.nn.functional.layer_norm(x, x.shape[-2:]),
    "rms_norm": lambda library, x: library.nn.functional.rms_norm(x, x.shape[-1:]),
    "conv": _convolved("conv", 3),
    "conv, strided": _convolved("conv", 3, stride=2, padding=1),
    "conv, same": _convolved("conv", 2, padding="same"),
    "conv_transpose": _convolved("conv_transpose", 3, stride=2),
    "avg_pool": _per_rank("avg_pool", 2),
    "max_pool": _per_rank("max_pool", 2),
    "max_pool with indices": _per_rank("max_pool", 3, 2, 1, return_indices=True),
    "adaptive_avg_pool, even": _per_rank("adaptive_avg_pool", 2),
    "adaptive_avg_pool": _per_rank("adaptive_avg_pool", 3),
    "adaptive_max_pool": _per_rank("adaptive_max_pool", 3),
    "adaptive_max_pool, even": _per_rank("adaptive_max_pool", 2, return_indices=True),
    "interpolate, nearest": _of("interpolate", scale_factor=2),
    "interpolate, area": _of("interpolate", scale_factor=2, mode="area"),
    "interpolate, linear": lambda library, x: library.nn.functional.interpolate(
        x, scale_factor=2, mode="bilinear" if x.ndim == 4 else "trilinear"
    ),
    "grid_sample": lambda library, x: library.nn.functional.grid_sample(
        x, _numbers(library, x.shape[0], *(3,) * (x.ndim - 2), x.ndim - 2), align_corners=False
    ),
    "channel_shuffle": _of("channel_shuffle", 2),
    "pad": lambda library, x: library.nn.functional.pad(x, (1, 2) * (x.ndim - 2)),
    "pad, removing": lambda library, x: library.nn.functional.pad(x, (-1, 0) * (x.ndim - 2)),
    "pad, reflecting": lambda library, x: library.nn.functional.pad(x, (1, 1) * (x.ndim - 2), "reflect"),
    "pad, repeating": lambda library, x: library.nn.functional.pad(x, (1, 1) * (x.ndim - 2), "replicate"),
    "pad, wrapping": lambda library, x: library.nn.functional.pad(x, (1, 1) * (x.ndim - 2), "circular"),
    "relu": _of("relu"),
    "relu6": _of("relu6"),
    "leaky_relu": _of("leaky_relu"),
    "prelu": lambda library, x: library.nn.functional.prelu(x, _channels(library, x)),
    "threshold": _of("threshold", 0.1, 0.3),
    "hardshrink": _of("hardshrink"),
    "softshrink": _of("softshrink"),
    "hardtanh": _of("hardtanh"),
    "gelu": _of("gelu"),
    "glu": _of("glu", 1),
    "softmax": _of("softmax", 1),
    "mse_loss": lambda library, x: library.nn.functional.mse_loss(x, x.detach() * 2, reduction="none"),
    "where": lambda library, x: library.where(x > 0, x, 0.0),
    "clamp": lambda library, x: x.clamp(-0.2, 0.7),
    "maximum": lambda library, x: library.maximum(x, -x.detach()),
    "pow": lambda library, x: x**3,
    "erf": lambda library, x: x.erf(),
}
#: functions of images only
OF_IMAGES: dict[str, Call] = {
    "pixel_shuffle": _of("pixel_shuffle", 2),
    "pixel_unshuffle": _of("pixel_unshuffle", 2),
    "interpolate, cubic": _of("interpolate", scale_factor=2, mode="bicubic"),
    "interpolate, smoothed": _of("interpolate", size=(3, 3), mode="bilinear", antialias=True),
}


def arranged(value: Any, order: str) -> Any:
    """Return equal elements in an order in memory."""
    library = ours if isinstance(value, ours.Tensor) else torch
    last = library.channels_last if value.ndim == 4 else library.channels_last_3d
    if order == "last":
        return value.contiguous(memory_format=last)
    if order == "a part of channels last":
        return library.cat([value, value], 1).contiguous(memory_format=last)[:, : value.shape[1]]
    return value.transpose(-1, -2).contiguous().transpose(-1, -2) if order == "turned" else value


def outcome(library: Any, call: Call, value: Any, order: str, arriving: str) -> tuple[list[Any], Any]:
    """Return the strides of results and of the first one's gradient, and the values of both."""
    x = arranged(value, order).detach().requires_grad_()
    result = call(library, x)
    results = result if isinstance(result, tuple) else (result,)
    gradient = arranged(_numbers(library, *results[0].shape), "last" if arriving == "last" else "row-major")
    gradient = gradient if arriving != "alike" else library.ones_like(results[0])
    (found,) = library.autograd.grad(results[0], x, gradient)
    return [tuple(each.stride()) for each in (*results, found)], [each.tolist() for each in (*results, found)]


def check(name: str, call: Call, shape: tuple[int, ...], order: str, arriving: str) -> None:
    value = torch.linspace(-40.0, 40.0, torch.Size(shape).numel()).sin().reshape(shape)
    strides, numbers = outcome(torch, call, value, order, arriving)
    for _ in range(3):  # A second call of a kind is remembered, and a third one repeats it.
        found, answers = outcome(ours, call, to_ours(value), order, arriving)
        assert found == strides, (name, shape, order)
        for one, other in zip(answers, numbers, strict=True):
            torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=6, deadline=None)
@given(
    shape=st.tuples(*[st.integers(2, 3), st.sampled_from([2, 4]), *[st.integers(4, 6)] * 2]) | st.just((2, 4, 4, 5, 6)),
    order=st.sampled_from(["row-major", "last", "a part of channels last"]),
    arriving=st.sampled_from(["row-major", "alike"]),
)  # fmt: skip
def test_strides_of_results_and_gradients(name: str, shape: tuple[int, ...], order: str, arriving: str) -> None:
    check(name, FUNCTIONS[name], shape, order, arriving)


@pytest.mark.parametrize("name", OF_IMAGES)
@settings(max_examples=6, deadline=None)
@given(
    size=st.sampled_from([2, 4, 6]), order=st.sampled_from(["row-major", "last"]),
    arriving=st.sampled_from(["row-major", "alike"]),
)  # fmt: skip
def test_strides_of_images(name: str, size: int, order: str, arriving: str) -> None:
    check(name, OF_IMAGES[name], (2, 8, size, 6), order, arriving)


ELEMENT_WISE = (
    "relu",
    "relu6",
    "leaky_relu",
    "prelu",
    "threshold",
    "hardshrink",
    "softshrink",
    "where",
    "clamp",
    "maximum",
)


@pytest.mark.parametrize("name", [*ELEMENT_WISE, "pow", "erf", "batch_norm", "rms_norm", "instance_norm of statistics"])
@pytest.mark.parametrize("arriving", ["row-major", "alike"])
def test_strides_of_turned_images(name: str, arriving: str) -> None:
    check(name, FUNCTIONS[name], (2, 4, 4, 5), "turned", arriving)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([2, 3]), st.booleans(), st.booleans(), st.booleans())
def test_weights_have_gradients_in_the_order_of_their_convolution(
    spatial: int, transposed: bool, last: bool, weight_last: bool
) -> None:
    assume(last or weight_last)
    found = []
    for library in (torch, ours):
        x = arranged(_numbers(library, 2, 4, *(5,) * spatial), "last" if last else "row-major").requires_grad_()
        weight = arranged(
            _numbers(library, 4, 4, *(3,) * spatial), "last" if weight_last else "row-major"
        ).requires_grad_()
        result = getattr(library.nn.functional, f"conv{'_transpose' if transposed else ''}{spatial}d")(x, weight)
        found.append([each.stride() for each in library.autograd.grad(result.square().sum(), (x, weight))])
    assert found[0] == found[1]


def test_what_was_rearranged_is_apart_from_its_input() -> None:
    x = ours.arange(16.0).reshape(1, 4, 2, 2)
    for result in (ours.nn.functional.pixel_shuffle(x, 1), ours.nn.functional.pixel_unshuffle(x, 1)):
        result.zero_()
    assert x.tolist() == ours.arange(16.0).reshape(1, 4, 2, 2).tolist()
