"""Quantised tensors: their integers, scales and texts, what functions make of them, and files both ways, next to PyTorch's."""

from __future__ import annotations

import copy
import io
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:All inputs of this cat operator"),
]
LIBRARIES = (webgpu_torch, torch)
TYPES = ("quint8", "qint8", "qint32")
#: integers at most this far apart: PyTorch's vectors and what is left over round differently where a number is halfway between two
STEP = 1


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def told(value: Any) -> Any:
    """Return what can be asked of a result of either library, with integers apart."""
    if isinstance(value, tuple | list):
        return [told(each) for each in value]
    if not hasattr(value, "is_quantized"):
        return value
    if not value.is_quantized:
        return str(value.dtype), tuple(value.shape), value.tolist()
    per_channel = "channel" in str(value.qscheme())
    asked = ("q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis")
    parameters = [getattr(value, name)() for name in (asked if per_channel else ("q_scale", "q_zero_point"))]
    scheme = [each.tolist() if hasattr(each, "tolist") else each for each in parameters]
    where = tuple(value.shape), tuple(value.stride()), value.storage_offset()
    integers = value.int_repr()
    assert (
        str(integers.dtype).removeprefix("torch.")
        == {"quint8": "uint8", "qint8": "int8", "qint32": "int32"}[str(value.dtype).removeprefix("torch.")]
    )
    return str(value.dtype), str(value.qscheme()), where, scheme, Integers(integers.flatten().tolist())


class Integers(list):
    """Integers of a quantised tensor, compared with a step to spare where that is asked for."""


def close(one: Any, other: Any, step: int = 0) -> None:
    if isinstance(one, Integers):
        first, second = np.array(one, dtype=np.int64), np.array(other, dtype=np.int64)
        assert first.shape == second.shape
        assert not first.size or np.abs(first - second).max() <= step, (one, other)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), (one, other)
        for first, second in zip(one, other, strict=True):
            close(first, second, step)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-6, nan_ok=True)
    else:
        assert one == other


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
SCALES = st.floats(2.0**-9, 0.5).map(lambda each: struct.unpack("f", struct.pack("f", each))[0])


@settings(max_examples=60, deadline=None)
@given(SHAPES, SCALES, st.integers(0, 127), st.sampled_from(TYPES), st.integers(0, 99))
def test_integers_and_numbers(shape: tuple[int, ...], scale: float, zero: int, kind: str, seed: int) -> None:
    values = numbers(shape, seed) * 3
    # Numbers halfway between two integers, and far beyond all of them.
    values.flat[::3] = np.round(values.flat[::3] / scale) * np.float32(scale) + np.float32(scale) / 2
    values.flat[::7] *= 1000
    found = []
    for t in LIBRARIES:
        quantized = t.quantize_per_tensor(t.from_numpy(values.copy()), scale, zero, getattr(t, kind))
        found.append((told(quantized), quantized.dequantize().tolist(), repr(quantized)))
    close(found[0], found[1])


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 3), st.booleans(), st.sampled_from(TYPES[:2]), st.integers(0, 99))
def test_channels(shape: tuple[int, ...], axis: int, floating: bool, kind: str, seed: int) -> None:
    axis %= len(shape)
    generator = np.random.default_rng(seed)
    scales = generator.random(shape[axis]).astype(np.float32) / 10 + np.float32(0.01)
    zeros = generator.integers(0, 100, shape[axis])
    zeros = zeros.astype(np.float32) / 7 if floating else zeros
    found = []
    for t in LIBRARIES:
        pair = t.from_numpy(scales.copy()), t.from_numpy(zeros.copy())
        quantized = t.quantize_per_channel(t.from_numpy(numbers(shape, seed)), *pair, axis, getattr(t, kind))
        found.append((told(quantized), quantized.dequantize().tolist(), repr(quantized)))
    close(found[0], found[1], STEP if floating else 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=9), st.sampled_from(TYPES[:2]), st.booleans(),
    st.sampled_from((1.0, 1e-4, 1e-7, 0.0, 1e5)),
)  # fmt: skip
def test_scales_that_cover(values: list[float], kind: str, reduced: bool, factor: float) -> None:
    found = [
        told(t.quantize_per_tensor_dynamic(t.tensor(values) * factor, getattr(t, kind), reduced)) for t in LIBRARIES
    ]
    close(found[0], found[1], STEP)


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_that_are_none(kind: str) -> None:
    values = [float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 0.0]
    found = [told(t.quantize_per_tensor(t.tensor(values * 7), 0.1, 3, getattr(t, kind))) for t in LIBRARIES]
    close(found[0], found[1])


def _written(t: Any, x: Any) -> Any:
    copied = x.clone()
    copied[0] = 0.37
    copied[-1] = x[0]
    copied[1].fill_(-0.2)
    return copied, x.clone().copy_(x.dequantize() * 1.7), t.empty_like(x).copy_(x)


#: programs of x: [2, 4, 6, 5], quantised; what PyTorch does with it
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "views": lambda t, x: (x.view(8, 30), x.reshape(-1), x.flatten(1), x.unsqueeze(0).squeeze(0), x[1], x[:, 1:3], x[..., None, 2]),
    "orders": lambda t, x: (x.permute(3, 1, 0, 2), x.transpose(0, 1), x.permute(0, 2, 3, 1).contiguous(), x[0].permute(1, 0, 2).flatten()),
    "formats": lambda t, x: (x.contiguous(memory_format=t.channels_last), x.clone(), x.detach(), x.expand(2, 4, 6, 5)),
    "parts": lambda t, x: (*x.chunk(2, 1), *x.split(3, 2), *x.unbind(1), x.narrow(2, 1, 3), x.select(1, 2)),
    "picked": lambda t, x: (x.index_select(1, t.tensor([2, 0])), x[:, t.tensor([1, 1])], x[x.dequantize() > 0], x.flip(1), x.repeat(1, 2, 1, 1)),
    "joined": lambda t, x: (t.cat([x, x.flip(0)], 1), t.stack([x, x]), t.cat([x, t.quantize_per_tensor(x.dequantize(), 0.031, 60, x.dtype)])),
    "written": _written,
    "compared": lambda t, x: (x == x, x < 0.5, x >= x.flip(0), t.equal(x, x.clone()), t.equal(x, x.flip(0)), x.ne(0.0)),
    "asked": lambda t, x: (x.is_quantized, x.is_floating_point(), x.element_size(), x.numel(), x.dim(), x.type(), x.is_contiguous(), x.nbytes),
    "items": lambda t, x: (x[0, 0, 0, 0].item(), float(x[1, 1, 1, 1]), bool(x[0, 1, 2, 3] == x[0, 1, 2, 3]), len(x)),
    "bounded": lambda t, x: (t.sigmoid(x), t.tanh(x), t.nn.functional.hardsigmoid(x)),
    "cut": lambda t, x: (t.relu(x), x.relu(), t.nn.functional.relu6(x), x.clamp(-0.3, 0.7), t.nn.functional.hardtanh(x), t.nn.functional.threshold(x, 0.1, 0.5)),
    "in place": lambda t, x: (x.clone().relu_(), t.nn.functional.relu(x.clone(), inplace=True), t.nn.ReLU(inplace=True)(x.clone())),
    "bent": lambda t, x: (t.nn.functional.leaky_relu(x, 0.1), x.masked_fill(x.dequantize() > 0.3, 0.77)),
    "pooled": lambda t, x: (t.nn.functional.max_pool2d(x, 2), t.nn.functional.avg_pool2d(x, 3, 1, 1), t.nn.functional.adaptive_avg_pool2d(x, (2, 1))),
    "modules": lambda t, x: (t.nn.MaxPool2d(2)(x), t.nn.AdaptiveAvgPool2d(1)(x), t.nn.Flatten()(x), t.nn.Identity()(x), t.nn.Dropout(0.5).eval()(x)),
    "means": lambda t, x: (x.mean([2, 3]), x.mean(1, keepdim=True), t.nn.functional.interpolate(x, scale_factor=2, mode="nearest")),
    "ordered": lambda t, x: (x.max(), x.min(), x[0, 0].sort(-1)[0], x.topk(2)[0]),
    "padded": lambda t, x: (t.nn.functional.pad(x, (1, 2)), t.nn.functional.pad(x, (1, 2, 0, 1), value=0.29), t.nn.functional.pad(x, (1, 1, 2, 0), mode="reflect")),
    "shuffled": lambda t, x: t.nn.functional.pixel_shuffle(x, 2),
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), SCALES, st.integers(0, 120), st.sampled_from(TYPES[:2]), st.integers(0, 99))
def test_programs(name: str, scale: float, zero: int, kind: str, seed: int) -> None:
    values = numbers((2, 4, 6, 5), seed)
    found = [
        told(PROGRAMS[name](t, t.quantize_per_tensor(t.from_numpy(values), scale, zero, getattr(t, kind))))
        for t in LIBRARIES
    ]
    close(found[0], found[1], STEP)


#: programs of x: [3, 4, 5], with a scale for each position of its first dimension
WITH_CHANNELS: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda t, x: (x[1], x.select(0, 2), x[0, 1, 2].item(), *x.unbind()),
    "same": lambda t, x: (x.clone(), x.detach(), x.contiguous(), x.view(3, 20), x.flatten(1), t.equal(x, x.clone())),
    "numbers": lambda t, x: (x == x, x < 0.2, x.clone().copy_(x.dequantize() * 1.3), x.is_quantized, x.type()),
}


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(WITH_CHANNELS)), st.integers(0, 99))
def test_programs_of_channels(name: str, seed: int) -> None:
    scales, values = np.random.default_rng(seed).random(3) / 10 + 0.01, numbers((3, 4, 5), seed)
    found = []
    for t in LIBRARIES:
        x = t.quantize_per_channel(t.from_numpy(values), t.from_numpy(scales), t.tensor([0, 3, 9]), 0, t.qint8)
        found.append(told(WITH_CHANNELS[name](t, x)))
    close(found[0], found[1], STEP)


def test_channels_move_with_their_dimension() -> None:
    """PyTorch keeps the scales of all positions where only some are left; here those stay that belong to them."""
    t = webgpu_torch
    x = t.quantize_per_channel(t.randn(3, 4), t.tensor([0.1, 0.2, 0.3]), t.tensor([0, 1, 2]), 0, t.qint8)
    for part, wanted in (
        (x[1:], x.dequantize()[1:]),
        (x[:, 1:3], x.dequantize()[:, 1:3]),
        (x[:, 2], x.dequantize()[:, 2]),
    ):
        assert t.equal(part.dequantize(), wanted)
    assert x[1:].q_per_channel_scales().tolist() == pytest.approx([0.2, 0.3])
    with pytest.raises(RuntimeError, match="uniformly quantized"):
        x.t()


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, x: x + x, "product": lambda t, x: x * 2, "total": lambda t, x: x.sum(), "type": lambda t, x: x.float(),
    "other type": lambda t, x: x.to(t.float32), "gradient": lambda t, x: x.requires_grad_(), "scales": lambda t, x: x.q_per_channel_scales(),
    "signed": lambda t, x: x.is_signed(), "dense": lambda t, x: x.dequantize().q_scale(), "dense copy": lambda t, x: x.dequantize().copy_(x),
    "integers": lambda t, x: t.quantize_per_tensor(x.int_repr(), 0.1, 0, t.qint8), "plain type": lambda t, x: t.quantize_per_tensor(x.dequantize(), 0.1, 0, t.int8),
    "zero point": lambda t, x: t.quantize_per_tensor(x.dequantize(), 0.1, 300, t.quint8), "array": lambda t, x: x.numpy(),
    "few scales": lambda t, x: t.quantize_per_channel(x.dequantize(), t.ones(1), t.zeros(1, dtype=t.int64), 0, t.qint8),
    "axis": lambda t, x: t.quantize_per_channel(x.dequantize(), t.ones(2), t.zeros(2, dtype=t.int64), 3, t.qint8),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    errors = []
    for t in LIBRARIES:
        x = t.quantize_per_tensor(t.ones(2, 3), 0.1, 3, t.quint8)
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)) as told_error:
            REFUSED[name](t, x)
        errors.append(told_error.type)
    # What PyTorch lacks a kernel for is sometimes one error and sometimes another.
    assert errors[0] is errors[1] or {*errors} == {RuntimeError, NotImplementedError}


def made(t: Any, seed: int) -> dict[str, Any]:
    x = t.from_numpy(numbers((3, 4), seed))
    whole = t.quantize_per_tensor(x, 0.05, 7, t.quint8)
    scales = t.from_numpy(np.random.default_rng(seed).random(4) + 0.01)
    return {
        "whole": whole, "part": whole[1:], "turned": whole.t(), "signed": t.quantize_per_tensor(x, 0.05, 7, t.qint8),
        "wide": t.quantize_per_tensor(x, 1e-4, 0, t.qint32), "type": t.qint8, "scheme": t.per_channel_affine,
        "channels": t.quantize_per_channel(x, scales, t.arange(4), 1, t.qint8),
    }  # fmt: skip


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("direction", ["from PyTorch", "to PyTorch", "here"])
def test_files(direction: str, weights_only: bool) -> None:
    writer = torch if direction == "from PyTorch" else webgpu_torch
    reader = torch if direction == "to PyTorch" else webgpu_torch
    content, file = made(writer, 5), io.BytesIO()
    writer.save(content, file)
    file.seek(0)
    read = reader.load(file, weights_only=weights_only)
    assert {**read, "type": str(read["type"])}.keys() == content.keys()
    for name, value in content.items():
        close(
            told(read[name]) if hasattr(value, "shape") else str(read[name]),
            told(value) if hasattr(value, "shape") else str(value),
        )
    # Parts of one storage are parts of one storage.
    read["whole"][1:].fill_(0.0)
    assert read["part"].dequantize().abs().max() == 0


def test_copies() -> None:
    for name, value in made(webgpu_torch, 3).items():
        for copied in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            close(
                told(copied) if hasattr(value, "shape") else copied, told(value) if hasattr(value, "shape") else value
            )
            assert name == "type" or name == "scheme" or copied is not value


def test_on_a_gpu(device: str) -> None:
    """Integers of any device differ by one step at most, and only where a number is halfway between two."""
    x = webgpu_torch.from_numpy(numbers((64, 9), 1))
    here, there = (webgpu_torch.quantize_per_tensor(each, 0.03, 9, webgpu_torch.quint8) for each in (x, x.to(device)))
    assert there.device.type == device and there.cpu().device.type == "cpu"
    assert (here.int_repr().int() - there.int_repr().cpu().int()).abs().max() <= STEP
    webgpu_torch.testing.assert_close(
        there.relu().view(-1)[3:].dequantize().cpu(), there.cpu().dequantize().relu().view(-1)[3:]
    )
