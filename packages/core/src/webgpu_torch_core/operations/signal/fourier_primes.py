"""Discrete Fourier transforms of lengths with a large prime factor, along the last dimension: by a matrix, or a convolution.

Short ones are one product with the matrix of the transform; others go through a convolution (L. I. Bluestein, "A linear filtering
approach to the computation of discrete Fourier transform", 1970) of a length that has no such factors.
"""

from __future__ import annotations

from ...ir.dtypes import float64
from ...record.devices import has_float64
from ...tensors.tensor import Tensor
from ..complex.arithmetic import product_imag, product_real
from ..complex.interleaving import join
from ..complex.views import part, view_as_complex, view_as_real
from ..movement.joining import cat, place_inside
from .fourier_butterflies import tables, transformed
from .fourier_constants import constant, keep, known

#: longest transform that is one matrix product
DIRECT = 256


def transform(input: Tensor, sign: int) -> Tensor:
    """Return the unscaled transform with ``exp(sign 2 pi i j k / n)`` along the last dimension; input complex or real."""
    count = input.shape[-1]
    if not input.dtype.is_complex:
        input = join(input, None)
    if count > DIRECT:
        return _by_convolution(input, sign)
    batch = tuple(input._layout.shape[:-1])
    rows = view_as_real(input.contiguous()).reshape((*batch, 2 * count))
    return view_as_complex(_direct(rows, count, sign).reshape((*batch, count, 2)))


def _direct(rows: Tensor, count: int, sign: int) -> Tensor:
    """Return rows times the matrix of a transform; where float64 is at hand the sums are rounded once, at the end."""
    if has_float64(rows.device):
        return (rows.to(float64) @ constant("matrix", rows.device, count, sign, wide=True)).to(rows.dtype)
    return rows @ constant("matrix", rows.device, count, sign)


def _multiplied(real: Tensor, imag: Tensor, factors: Tensor) -> Tensor:
    """Return complex numbers given by their parts times constants given as [2, …]."""
    cosines, sines = factors.select(0, 0), factors.select(0, 1)
    return join(product_real(real, imag, cosines, sines), product_imag(real, imag, cosines, sines))


def _along_last(input: Tensor, sign: int) -> Tensor:
    """Return the transform of complex numbers along the last dimension, whose length has no large prime factor."""
    count = input.shape[-1]
    turns = tables(input.device, count, sign, input.dtype.to_real() is float64)
    return transformed(input, turns, input.ndim - 1, count, sign, 1.0, "complex", "complex")


def _by_convolution(input: Tensor, sign: int) -> Tensor:
    """Return a transform of any length: ``j k = (j^2 + k^2 - (k - j)^2) / 2`` makes it a convolution with a chirp."""
    count = input.shape[-1]
    length = 1 << (2 * count - 2).bit_length()
    chirp = constant("chirp", input.device, count, sign, wide=input.dtype.to_real() is float64)
    turned = _multiplied(part(input, 0), part(input, 1), chirp)
    padded = place_inside(turned, (0,) * input.ndim, (*input._layout.shape[:-1], length))
    found = _along_last(_along_last(padded, -1) * _response(chirp, length, sign), 1).narrow(-1, 0, count)
    found = found * (1.0 / length)
    return _multiplied(part(found, 0), part(found, 1), chirp)


def _response(chirp: Tensor, length: int, sign: int) -> Tensor:
    """Return the transform of the conjugate chirp, laid around a circle of ``length`` places."""
    count = chirp.shape[-1]
    key = ("response", chirp._engine, (count, length, sign), chirp.dtype)
    found = known(key)
    if found is None:
        inverse = join(chirp.select(0, 0), -chirp.select(0, 1))
        gap = inverse.new_zeros((length - 2 * count + 1,))
        found = keep(key, _along_last(cat([inverse, gap, inverse[1:].flip(0)], 0), -1))
    return found
