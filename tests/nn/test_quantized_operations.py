"""``torch.ops.quantized``: integers of sums, products and convolutions next to those of PyTorch's engine fbgemm, which sums exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
LIBRARIES = (webgpu_torch, torch)


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[None]:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


class Case:
    """Draws the same arguments for either library."""

    def __init__(self, t: Any, seed: int) -> None:
        self.t, self.generator = t, np.random.default_rng(seed)

    def numbers(self, *shape: int) -> Any:
        return self.t.from_numpy(self.generator.standard_normal(shape).astype(np.float32))

    def integer(self, low: int, high: int) -> int:
        return int(self.generator.integers(low, high))

    def scale(self) -> float:
        return float(np.float32(self.generator.random() * 0.2 + 0.01))

    def activation(self, *shape: int) -> Any:
        return self.t.quantize_per_tensor(self.numbers(*shape), 0.04, self.integer(0, 128), self.t.quint8)

    def weight(self, *shape: int, axis: int | None = None) -> Any:
        values = self.numbers(*shape)
        if axis is None:
            return self.t.quantize_per_tensor(values, 0.03, 0, self.t.qint8)
        scales = self.t.from_numpy(self.generator.random(shape[axis]) * 0.05 + 0.01)
        return self.t.quantize_per_channel(
            values, scales, self.t.zeros(shape[axis], dtype=self.t.int64), axis, self.t.qint8
        )

    def channels(self) -> int | None:
        return 0 if self.integer(0, 2) else None


def _linear(c: Case) -> Any:
    inner, outer = c.integer(1, 200), c.integer(1, 40)
    weight = c.weight(outer, inner, axis=c.channels())
    packed = c.t.ops.quantized.linear_prepack(weight, c.numbers(outer) if c.integer(0, 3) else None)
    x, scale, zero = c.activation(c.integer(1, 9), inner), c.scale(), c.integer(0, 200)
    return [getattr(c.t.ops.quantized, name)(x, packed, scale, zero) for name in ("linear", "linear_relu")]


def _linear_dynamic(c: Case) -> Any:
    inner, outer = c.integer(1, 200), c.integer(1, 40)
    packed = c.t.ops.quantized.linear_prepack(c.weight(outer, inner, axis=c.channels()), c.numbers(outer))
    x = c.numbers(2, c.integer(1, 9), inner)
    dynamic, rectified = c.t.ops.quantized.linear_dynamic, c.t.ops.quantized.linear_relu_dynamic
    return [dynamic(x, packed), dynamic(x, packed, True), rectified(x, packed, True)]


def _convolution(dims: int) -> Callable[[Case], Any]:
    def compute(c: Case) -> Any:
        groups, window = (1, 2, 4)[c.integer(0, 3)], (3, 2, 2)[:dims]
        weight, bias = c.weight(8, 4 // groups, *window, axis=c.channels()), c.numbers(8)
        slides = [[c.integer(1, 3)] * dims, [c.integer(0, 2)] * dims, [c.integer(1, 3)] * dims]
        packed = getattr(c.t.ops.quantized, f"conv{dims}d_prepack")(weight, bias, *slides, groups)
        x, scale, zero = c.activation(2, 4, *(9, 8, 5)[:dims]), c.scale() / 2, c.integer(0, 200)
        names = (f"conv{dims}d", f"conv{dims}d_relu")
        return [getattr(c.t.ops.quantized, name)(x, packed, scale, zero) for name in names]

    return compute


def _transposed(c: Case) -> Any:
    groups = (1, 2, 4)[c.integer(0, 3)]
    step, padded = c.integer(1, 3), c.integer(0, 2)
    slides = [[step, step], [padded, padded], [step - 1, 0], [1, 1]]
    packed = c.t.ops.quantized.conv_transpose2d_prepack(c.weight(4, 8 // groups, 3, 2), c.numbers(8), *slides, groups)
    return c.t.ops.quantized.conv_transpose2d(c.activation(2, 4, 9, 8), packed, c.scale() / 2, c.integer(0, 200))


def _sums(c: Case) -> Any:
    x, y, scale, zero = c.activation(37), c.activation(37), c.scale(), c.integer(0, 200)
    names = ("add", "add_relu", "mul", "mul_relu")
    joined = [c.t.ops.quantized.cat([x, y], 0, scale, zero), c.t.ops.quantized.cat_relu([x, y], 0, scale, zero)]
    return [getattr(c.t.ops.quantized, name)(x, y, scale, zero) for name in names] + joined


def _with_number(c: Case) -> Any:
    x, number = c.activation(37), float(c.generator.standard_normal() * (1, 30)[c.integer(0, 2)])
    names = ("add_scalar", "add_scalar_relu", "mul_scalar", "mul_scalar_relu", "add", "mul")
    return [getattr(c.t.ops.quantized, name)(x, number) for name in names]


def _bent(c: Case) -> Any:
    x, scale, zero, names = c.activation(6, 7), c.scale(), c.integer(0, 200), ("hardswish", "elu", "celu")
    found = [getattr(c.t.ops.quantized, name)(x, scale, zero) for name in names]
    return [
        *found,
        c.t.ops.quantized.leaky_relu(x, 0.1, False, scale, zero),
        c.t.ops.quantized.softmax(x, 1, 1 / 256, 0),
    ]


def _normalised(c: Case) -> Any:
    x, end = c.activation(2, 4, 5, 6), (c.scale(), c.integer(0, 200))
    weight, bias, ops = c.numbers(4), c.numbers(4), c.t.ops.quantized
    return [
        ops.batch_norm2d(x, weight, bias, c.numbers(4), c.numbers(4) ** 2 + 0.1, 1e-5, *end),
        ops.batch_norm2d_relu(x, weight, bias, c.numbers(4), c.numbers(4) ** 2 + 0.1, 1e-5, *end),
        ops.group_norm(x, 2, weight, bias, 1e-5, *end), ops.instance_norm(x, weight, bias, 1e-5, *end),
        ops.layer_norm(x, [6], c.numbers(6), c.numbers(6), 1e-5, *end),
    ]  # fmt: skip


def _matrices(c: Case) -> Any:
    return c.t.ops.quantized.matmul(c.activation(3, 5, 9), c.activation(3, 9, 4), c.scale(), c.integer(0, 200))


PROGRAMS: dict[str, Callable[[Case], Any]] = {
    "linear": _linear, "linear dynamic": _linear_dynamic, "conv1d": _convolution(1), "conv2d": _convolution(2), "conv3d": _convolution(3),
    "transposed": _transposed, "sums": _sums, "with a number": _with_number, "bent": _bent, "normalised": _normalised, "matrices": _matrices,
}  # fmt: skip
#: what is summed in integers and scaled once is PyTorch's integer; elsewhere a number halfway between two may go either way
EXACT = ("linear", "conv1d", "conv2d", "conv3d", "transposed", "matrices")


def compare(name: str, seed: int) -> None:
    both = [PROGRAMS[name](Case(t, seed)) for t in LIBRARIES]
    for mine, theirs in zip(*(each if isinstance(each, list) else [each] for each in both), strict=True):
        assert tuple(mine.shape) == tuple(theirs.shape)
        if not theirs.is_quantized:
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)
            continue
        assert str(mine.dtype) == str(theirs.dtype) and mine.q_zero_point() == theirs.q_zero_point()
        assert mine.q_scale() == pytest.approx(theirs.q_scale(), rel=1e-6)
        apart = np.abs(mine.int_repr().numpy().astype(int) - theirs.int_repr().numpy().astype(int))
        assert apart.max() <= (0 if name in EXACT else 1), name


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), st.integers(0, 10_000))
def test_programs(name: str, seed: int) -> None:
    compare(name, seed)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_each_program(name: str) -> None:
    compare(name, 3)


def test_weights_are_unpacked() -> None:
    for t in LIBRARIES:
        c = Case(t, 1)
        weight, bias = c.weight(4, 3, axis=0), c.numbers(4)
        found = t.ops.quantized.linear_unpack(t.ops.quantized.linear_prepack(weight, bias))
        assert t.equal(found[0].int_repr(), weight.int_repr()) and t.equal(found[1], bias)
        packed = t.ops.quantized.conv2d_prepack(c.weight(4, 2, 3, 3), None, [2, 2], [1, 0], [1, 1], 2)
        assert list(t.ops.quantized.conv2d_stride(packed)) == [2, 2] and list(packed.padding()) == [1, 0]
        assert t.ops.quantized.conv2d_groups(packed) == 2 and packed.unpack()[1] is None


def test_on_every_device(device: str) -> None:
    """Sums are of integers on every device: equal, but for what is rounded when they are scaled."""
    t, found = webgpu_torch, []
    for place in ("cpu", device):
        c = Case(t, 5)
        bias, dense, window = c.numbers(8).to(place), c.weight(8, 12, axis=0).to(place), c.weight(8, 2, 3, 2).to(place)
        rows, image = c.activation(5, 12).to(place), c.activation(2, 4, 6, 5).to(place)
        slid = t.ops.quantized.conv2d_prepack(window, bias, [1, 2], [1, 0], [1, 1], 2)
        packed = t.ops.quantized.linear_prepack(dense, bias)
        results = [t.ops.quantized.linear(rows, packed, 0.3, 90), t.ops.quantized.conv2d(image, slid, 0.1, 60)]
        results.append(t.ops.quantized.add(rows, rows, 0.07, 3))
        assert all(each.device.type == place for each in results)
        found.append([each.int_repr().cpu().int() for each in results])
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() <= 1


def test_refused() -> None:
    t = webgpu_torch
    with pytest.raises(NotImplementedError, match="takes quantized tensors"):
        t.ops.quantized.add(t.ones(2), t.ones(2), 1.0, 0)
    with pytest.raises(RuntimeError, match="qint8"):
        t.ops.quantized.linear_prepack(t.ones(2, 2))
    with pytest.raises(AttributeError, match="has no attribute"):
        t.ops.quantized.unheard_of  # noqa: B018
