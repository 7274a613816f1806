"""Discrete Fourier transforms along the last dimension: the host's library where the device is the host, matrices elsewhere.

What is captured to run again has matrices everywhere: a replay runs kernels only.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import dtype
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient
from ..complex.views import real
from ..host_algorithms import has_algorithm, host_call
from ..movement.joining import place_inside
from . import fourier_matrices as matrices


def _called(
    input: Tensor, kind: str, sign: int, count: int, size: int, of: dtype, backward: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return a transform of ``count`` places, of which ``size`` come out, with its gradient."""
    shape = (*input._layout.shape[:-1], size)
    (result,) = host_call("fourier", (input,), (shape,), (of,), kind=kind, sign=sign, count=count)
    return attach(result, f"Fft{kind.title()}Backward0", (input,), backward) if needs_gradient(input) else result


def transform(input: Tensor, sign: int) -> Tensor:
    """Return the unscaled transform with ``exp(sign 2 pi i j k / n)`` along the last dimension; input complex or real."""
    if not has_algorithm(input, "fourier"):
        return matrices.transform(input, sign)
    count, is_complex = input.shape[-1], input.dtype.is_complex

    def run_backward(grad: Tensor) -> Tensor:
        found = transform(grad, -sign)
        return found if is_complex else real(found)

    return _called(input, "C2C", sign, count, count, input.dtype.to_complex(), run_backward)


def half_transform(input: Tensor, sign: int) -> Tensor:
    """Return the first n // 2 + 1 numbers of the transform of real numbers along the last dimension."""
    if not has_algorithm(input, "fourier"):
        return matrices.half_transform(input, sign)
    count = input.shape[-1]

    def run_backward(grad: Tensor) -> Tensor:
        whole = place_inside(grad, (0,) * grad.ndim, (*grad._layout.shape[:-1], count))
        return real(transform(whole, -sign))

    return _called(input, "R2C", sign, count, count // 2 + 1, input.dtype.to_complex(), run_backward)


def hermitian_transform(input: Tensor, count: int, sign: int) -> Tensor:
    """Return the real transform of length ``count`` whose input's first half is given along the last dimension."""
    if not has_algorithm(input, "fourier"):
        return matrices.hermitian_transform(input, count, sign)

    def run_backward(grad: Tensor) -> Tensor:
        found = half_transform(grad, -sign)
        # Frequencies other than 0 and n / 2 stand for their mirror image too.
        mirrored = found.narrow(-1, 1, (count - 1) // 2)
        return found + place_inside(mirrored, (*(0,) * (found.ndim - 1), 1), tuple(found._layout.shape))

    return _called(input, "C2R", sign, count, count, input.dtype.to_real(), run_backward)
