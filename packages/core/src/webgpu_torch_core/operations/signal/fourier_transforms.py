"""Discrete Fourier transforms over dimensions, each with one gradient: the host's library where the device is the host, matrices elsewhere.

What is captured to run again has matrices everywhere: a replay runs kernels only. As PyTorch's do, results lie in memory with the
transformed dimensions last, and the others, and those among which the order is free, in the order that they have in the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...ir.dtypes import dtype
from ...ir.layouts import contiguous_strides, layout
from ...record.grad_mode import no_grad
from ...tensors.tensor import Tensor
from ..common import attach
from ..complex.views import real
from ..host_algorithms import has_algorithm, host_call
from ..movement.joining import place_inside
from . import fourier_matrices as matrices


def _along_last(input: Tensor, kind: str, sign: int, count: int) -> Tensor:
    """Return one transform of the last dimension without a factor: C2C, R2C (half of the numbers) or C2R (from half of them)."""
    if not has_algorithm(input, "fourier"):
        if kind == "C2R":
            return matrices.hermitian_transform(input, count, sign)
        return (matrices.transform if kind == "C2C" else matrices.half_transform)(input, sign)
    of: dtype = input.dtype.to_real() if kind == "C2R" else input.dtype.to_complex()
    shape = (*input._layout.shape[:-1], count // 2 + 1 if kind == "R2C" else count)
    return host_call("fourier", (input,), (shape,), (of,), kind=kind, sign=sign, count=count)[0]


def _computed(input: Tensor, axes: Sequence[int], kind: str, sign: int, factor: float, count: int = 0) -> Tensor:
    """Return the transform along the last of ``axes``, where C2R gives ``count`` numbers, then of complex numbers along the others."""
    strides, last = input._layout.strides, axes[-1]
    by_stride = partial(sorted, key=lambda axis: -strides[axis])
    inner = by_stride(axes) if kind == "C2C" else [*by_stride(axes[:-1]), last]
    order = [*by_stride([axis for axis in range(input.ndim) if axis not in axes]), *inner]
    ndim = input.ndim
    with no_grad():
        result = input.detach().permute(order)
        for position in range(ndim - 1, ndim - 1 - len(axes), -1):
            line = result.transpose(position, -1).contiguous()
            first = order[position] == last
            points = count if first and count else line.shape[-1]
            result = _along_last(line, kind if first else "C2C", sign, points).transpose(position, -1)
        result = result.contiguous() if factor == 1.0 else (result * factor).contiguous()
    shape = [0] * ndim
    steps = [0] * ndim
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
