"""Discrete Fourier transforms over dimensions, each with one gradient: the host's library where the device is the host, kernels elsewhere.

What is captured to run again has kernels everywhere: a replay runs nothing else. As PyTorch's do, results lie in memory with the
transformed dimensions last, and the others, and those among which the order is free, in the order that they have in the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...ir.dtypes import dtype, float64
from ...ir.layouts import contiguous_strides, layout
from ...record.grad_mode import no_grad
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import attach
from ..complex.views import conj, real
from ..host_algorithms import has_algorithm, host_call
from ..movement.joining import cat, place_inside
from . import fourier_primes as primes
from .fourier_butterflies import Result, Source, radices, tables, transformed


def _by_host(input: Tensor, kind: str, sign: int, count: int) -> Tensor:
    """Return one transform of the last dimension without a factor: C2C, R2C (half of the numbers) or C2R (from half of them)."""
    of: dtype = input.dtype.to_real() if kind == "C2R" else input.dtype.to_complex()
    shape = (*input._layout.shape[:-1], count // 2 + 1 if kind == "R2C" else count)
    return host_call("fourier", (input,), (shape,), (of,), kind=kind, sign=sign, count=count)[0]


def _by_kernels(input: Tensor, kind: str, sign: int, count: int) -> Tensor:
    """Return what :func:`_by_host` does of a length with a large prime factor."""
    if kind == "C2R":
        mirrored = conj(input.narrow(-1, 1, (count - 1) // 2)).flip(-1)
        return real(primes.transform(cat([input, mirrored], -1), sign))
    found = primes.transform(input, sign)
    return found.narrow(-1, 0, count // 2 + 1) if kind == "R2C" else found


def _line_by_line(
    input: Tensor, order: Sequence[int], lines: Sequence[tuple[int, str, int]], sign: int, factor: float
) -> Tensor:
    """Return the transform along dimensions one after another, each as the last; see :func:`_by_butterflies`."""
    result = input.permute(order)
    transformed = _by_host if has_algorithm(input, "fourier") else _by_kernels
    for position, kind, count in lines:
        line = result.transpose(position, -1).contiguous()
        result = transformed(line, kind, sign, count).transpose(position, -1)
    return result.contiguous() if factor == 1.0 else (result * factor).contiguous()


_RESULTS: dict[str, Result] = {"C2C": "complex", "C2R": "real", "R2C": "half"}


@remembered
def _by_butterflies(
    input: Tensor, turns: Sequence[Sequence[Tensor]], order: Sequence[int], lines: Sequence[tuple[int, str, int]], sign: int,
    factor: float,
) -> Tensor:  # fmt: skip
    """Return the transform along dimensions of the permuted input, in row-major order.

    Args:
        turns: the twiddle factors of each length.
        lines: of each transform, in turn, the dimension, what it is (C2C, R2C or C2R), and its length.
    """
    result = input.permute(order)
    for number, (position, kind, count) in enumerate(lines):
        source: Source = "half" if kind == "C2R" else "complex" if result.dtype.is_complex else "real"
        own = factor if number == len(lines) - 1 else 1.0
        result = transformed(result, turns[number], position, count, sign, own, source, _RESULTS[kind])
    return result.contiguous()


def _computed(input: Tensor, axes: Sequence[int], kind: str, sign: int, factor: float, count: int = 0) -> Tensor:
    """Return the transform along the last of ``axes``, where C2R gives ``count`` numbers, then of complex numbers along the others."""
    strides, last = input._layout.strides, axes[-1]
    by_stride = partial(sorted, key=lambda axis: -strides[axis])
    inner = by_stride(axes) if kind == "C2C" else [*by_stride(axes[:-1]), last]
    order = (*by_stride([axis for axis in range(input.ndim) if axis not in axes]), *inner)
    lines = tuple([
        (place, kind if order[place] == last else "C2C", count if order[place] == last and count else input.shape[order[place]])
        for place in range(input.ndim - 1, input.ndim - 1 - len(axes), -1)
    ])  # fmt: skip
    with no_grad():
        given = input.detach()
        if not has_algorithm(input, "fourier") and all(radices(points) for _, _, points in lines):
            wide = input.dtype.to_real() is float64
            turns = tuple([tables(input.device, points, sign, wide) for _, _, points in lines])
            result = _by_butterflies(given, turns, order, lines, sign, factor)
        else:
            result = _line_by_line(given, order, lines, sign, factor)
    shape = [0] * input.ndim
    steps = [0] * input.ndim
    for axis, size, stride in zip(order, result._layout.shape, contiguous_strides(result._layout.shape), strict=True):
        shape[axis], steps[axis] = size, stride
    return Tensor._from_storage(
        result._storage, layout(tuple(shape), tuple(steps), result._layout.offset), result.dtype, result.device
    )


def transform(input: Tensor, axes: Sequence[int], sign: int, factor: float) -> Tensor:
    """Return the transform with ``exp(sign 2 pi i j k / n)`` over dimensions, times a factor; input complex, or real over one dimension."""
    is_complex = input.dtype.is_complex

    def run_backward(grad: Tensor) -> Tensor:
        found = transform(grad, axes, -sign, factor)
        return found if is_complex else real(found)

    result = _computed(input, axes, "C2C", sign, factor)
    return attach(result, "FftC2CBackward0" if is_complex else "FftR2CBackward0", (input,), run_backward)


def half_transform(input: Tensor, axes: Sequence[int], sign: int, factor: float) -> Tensor:
    """Return the transform of real numbers over dimensions, of the last only the first n // 2 + 1 numbers, times a factor."""
    sizes = input._layout.shape

    def run_backward(grad: Tensor) -> Tensor:
        whole = place_inside(grad, (0,) * grad.ndim, sizes) if grad._layout.shape != sizes else grad
        return real(transform(whole, axes, -sign, factor))

    result = _computed(input, axes, "R2C", sign, factor)
    return attach(result, "FftR2CBackward0", (input,), run_backward)


def hermitian_transform(input: Tensor, axes: Sequence[int], count: int, sign: int, factor: float) -> Tensor:
    """Return the real transform over dimensions, of the last ``count`` numbers, of which the first half is given, times a factor."""
    *others, last = axes

    def run_backward(grad: Tensor) -> Tensor:
        found = half_transform(grad, axes, -sign, factor)
        # Frequencies other than 0 and n / 2 stand for their mirror image too.
        mirrored = found.narrow(last, 1, (count - 1) // 2)
        before = [0] * found.ndim
        before[last] = 1
        return found + place_inside(mirrored, tuple(before), found._layout.shape)

    source = _computed(input, others, "C2C", sign, 1.0) if others else input
    result = _computed(source, (last,), "C2R", sign, factor, count)
    return attach(result, "FftC2RBackward0", (input,), run_backward)
