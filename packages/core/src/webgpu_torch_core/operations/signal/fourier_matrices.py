"""Discrete Fourier transforms along the last dimension, as products with constant matrices.

A length n = n1 n2 is split as Cooley and Tukey do ("An algorithm for the machine calculation of complex Fourier series", 1965):
transforms of length n1 over one factor, a multiplication by twiddle factors, transforms of length n2 over the other. Lengths up
to :data:`DIRECT` are one product with the matrix of the transform; large primes go through a convolution (Bluestein, "A linear
filtering approach to the computation of discrete Fourier transform", 1970). The constants are computed in double precision.
"""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from typing import Any

from ...ir.dtypes import float32, float64
from ...record.devices import device, engine_for, has_float64
from ...tensors.tensor import Tensor
from ..complex.arithmetic import product_imag, product_real
from ..complex.interleaving import join
from ..complex.views import conj, part, view_as_complex, view_as_real
from ..creation.factories import from_bytes
from ..movement.joining import cat, place_inside

#: longest transform that is one matrix product
DIRECT = 64
#: longest prime length that is one matrix product
DIRECT_PRIME = 256
#: how many constant tensors are kept, and how many floats in all of them
CACHED, CACHED_FLOATS = 256, 1 << 24

_constants: OrderedDict[tuple[Any, ...], Tensor] = OrderedDict()


def _circle(count: int, sign: int) -> tuple[list[float], list[float]]:
    """Return cosine and sine of ``sign * 2 pi k / count`` for every k."""
    cosines, sines = [], []
    for index in range(count):
        # Whole quarter turns are exact, and quarters mirror each other exactly: sums that cancel then do.
        quarter, rest = divmod(4 * index, count)
        angle = 0.5 * math.pi * rest / count
        cosine, sine = math.cos(angle), math.sin(angle)
        for _ in range(quarter):
            cosine, sine = -sine, cosine
        cosines.append(cosine)
        sines.append(sign * sine)
    return cosines, sines


def _matrix(count: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return the real matrix [2n, 2n] that takes interleaved numbers (a row) to their interleaved transform."""
    cosines, sines = _circle(count, sign)
    rows: list[float] = []
    for j in range(count):
        places = [j * k % count for k in range(count)]
        rows.extend(each for place in places for each in (cosines[place], sines[place]))
        rows.extend(each for place in places for each in (-sines[place], cosines[place]))
    return (2 * count, 2 * count), rows


def _half_matrix(count: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return the matrix [n, 2h] that takes real numbers to the first h = n // 2 + 1 interleaved numbers of the transform."""
    cosines, sines = _circle(count, sign)
    kept = count // 2 + 1
    places = [j * k % count for j in range(count) for k in range(kept)]
    return (count, 2 * kept), [each for place in places for each in (cosines[place], sines[place])]


def _hermitian_matrix(count: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return the matrix [2h, n] from the first half of a Hermitian sequence to its real transform."""
    cosines, sines = _circle(count, sign)
    rows: list[float] = []
    for k in range(count // 2 + 1):
        # Frequencies other than 0 and n / 2 stand for their mirror image too.
        weight = 1.0 if 2 * k in (0, count) else 2.0
        places = [j * k % count for j in range(count)]
        rows.extend(weight * cosines[place] for place in places)
        rows.extend(0.0 if weight == 1.0 else -weight * sines[place] for place in places)
    return (2 * (count // 2 + 1), count), rows


def _left_matrix(count: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return the matrix [2n, 2n] that multiplies columns of parts: real and imaginary rows alternate."""
    shape, rows = _matrix(count, sign)
    size = shape[0]
    return shape, [rows[column * size + row] for row in range(size) for column in range(size)]


def _left_real_matrix(count: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return the matrix [2n, n] that takes columns of real numbers to alternating parts."""
    shape, rows = _left_matrix(count, sign)
    return (shape[0], count), [each for index, each in enumerate(rows) if index % 2 == 0]


def _twiddles(first: int, second: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return ``exp(sign 2 pi i k1 j2 / n)`` as [2, n1, n2]: cosines, then sines."""
    count = first * second
    cosines, sines = _circle(count, sign)
    places = [k * j for k in range(first) for j in range(second)]
    return (2, first, second), [cosines[each] for each in places] + [sines[each] for each in places]


def _chirp(count: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return ``exp(sign pi i k^2 / n)`` as [2, n]."""
    cosines, sines = _circle(2 * count, sign)
    places = [k * k % (2 * count) for k in range(count)]
    return (2, count), [cosines[each] for each in places] + [sines[each] for each in places]


_MAKERS = {
    "matrix": _matrix, "half": _half_matrix, "hermitian": _hermitian_matrix, "left": _left_matrix,
    "left real": _left_real_matrix, "twiddles": _twiddles, "chirp": _chirp,
}  # fmt: skip


def constant(kind: str, place: device, *arguments: int, wide: bool = False) -> Tensor:
    """Return a constant tensor on a device, made once; ``wide``: in float64."""
    # By its engine: what lived on a device that was lost is not on the one that was opened in its place.
    key = (kind, engine_for(place), arguments, wide)
    found = _constants.get(key)
    if found is None:
        shape, numbers = _MAKERS[kind](*arguments)
        found = from_bytes(array("d" if wide else "f", numbers), shape, float64 if wide else float32, place)
        _keep(key, found)
    else:
        _constants.move_to_end(key)
    return found


def _direct(rows: Tensor, kind: str, count: int, sign: int) -> Tensor:
    """Return rows times the matrix of a transform; where float64 is at hand the sums are rounded once, at the end."""
    if has_float64(rows.device):
        return (rows.to(float64) @ constant(kind, rows.device, count, sign, wide=True)).to(rows.dtype)
    return rows @ constant(kind, rows.device, count, sign)


def _keep(key: tuple[Any, ...], made: Tensor) -> None:
    _constants[key] = made
    while len(_constants) > 1 and (
        len(_constants) > CACHED or sum(each.numel() for each in _constants.values()) > CACHED_FLOATS
    ):
        _constants.popitem(last=False)


def split_length(count: int) -> int:
    """Return the factor that is transformed first: the divisor up to ``DIRECT`` that balances the stages, 1 if there is none."""
    stages = max(2, math.ceil(math.log(count, DIRECT) - 1e-9))
    wanted = count ** (1.0 / stages)
    divisors = [each for each in range(2, DIRECT + 1) if count % each == 0]
    return min(divisors, key=lambda each: abs(math.log(each / wanted)), default=1)


def transform(input: Tensor, sign: int) -> Tensor:
    """Return the unscaled transform with ``exp(sign 2 pi i j k / n)`` along the last dimension; input complex or real."""
    count = input.shape[-1]
    batch = tuple(input._layout.shape[:-1])
    is_complex = input.dtype.is_complex
    if count <= DIRECT or (count <= DIRECT_PRIME and split_length(count) == 1):
        if not is_complex:
            input = join(input, None)
        rows = view_as_real(input.contiguous()).reshape((*batch, 2 * count))
        product = _direct(rows, "matrix", count, sign)
        return view_as_complex(product.reshape((*batch, count, 2)))
    first = split_length(count)
    if first == 1:
        return _by_convolution(input if is_complex else join(input, None), sign)
    second = count // first
    wide = input.dtype.to_real() is float64
    if is_complex:
        columns = view_as_real(input.contiguous()).reshape((*batch, first, second, 2)).transpose(-1, -2)
        columns = columns.reshape((*batch, 2 * first, second))
        product = constant("left", input.device, first, sign, wide=wide) @ columns
    else:
        product = constant("left real", input.device, first, sign, wide=wide) @ input.reshape((*batch, first, second))
    parts = product.reshape((*batch, first, 2, second))
    turned = _multiplied(
        parts.select(-2, 0), parts.select(-2, 1), constant("twiddles", input.device, first, second, sign, wide=wide)
    )
    return transform(turned, sign).transpose(-1, -2).reshape((*batch, count))


def _multiplied(real: Tensor, imag: Tensor, factors: Tensor) -> Tensor:
    """Return complex numbers given by their parts times constants given as [2, …]."""
    cosines, sines = factors.select(0, 0), factors.select(0, 1)
    return join(product_real(real, imag, cosines, sines), product_imag(real, imag, cosines, sines))


def _by_convolution(input: Tensor, sign: int) -> Tensor:
    """Return a transform of any length: ``j k = (j^2 + k^2 - (k - j)^2) / 2`` makes it a convolution with a chirp."""
    count = input.shape[-1]
    length = 1 << (2 * count - 2).bit_length()
    chirp = constant("chirp", input.device, count, sign, wide=input.dtype.to_real() is float64)
    turned = _multiplied(part(input, 0), part(input, 1), chirp)
    padded = place_inside(turned, (0,) * input.ndim, (*input._layout.shape[:-1], length))
    found = transform(transform(padded, -1) * _response(chirp, length, sign), 1).narrow(-1, 0, count) * (1.0 / length)
    return _multiplied(part(found, 0), part(found, 1), chirp)


def _response(chirp: Tensor, length: int, sign: int) -> Tensor:
    """Return the transform of the conjugate chirp, laid around a circle of ``length`` places."""
    count = chirp.shape[-1]
    key = ("response", chirp._engine, (count, length, sign), chirp.dtype)
    found = _constants.get(key)
    if found is None:
        inverse = join(chirp.select(0, 0), -chirp.select(0, 1))
        gap = inverse.new_zeros((length - 2 * count + 1,))
        found = transform(cat([inverse, gap, inverse[1:].flip(0)], 0), -1).contiguous()
        _keep(key, found)
    return found


def half_transform(input: Tensor, sign: int) -> Tensor:
    """Return the first n // 2 + 1 numbers of the transform of real numbers along the last dimension."""
    count = input.shape[-1]
    kept = count // 2 + 1
    if count <= DIRECT:
        product = _direct(input, "half", count, sign)
        return view_as_complex(product.reshape((*input._layout.shape[:-1], kept, 2)))
    return transform(input, sign).narrow(-1, 0, kept).contiguous()


def hermitian_transform(input: Tensor, count: int, sign: int) -> Tensor:
    """Return the real transform of length ``count`` whose input's first half is given along the last dimension."""
    batch = tuple(input._layout.shape[:-1])
    kept = count // 2 + 1
    if count <= DIRECT:
        rows = view_as_real(input.contiguous()).reshape((*batch, 2 * kept))
        return _direct(rows, "hermitian", count, sign)

    mirrored = conj(input.narrow(-1, 1, count - kept)).flip(-1)
    return part(transform(cat([input, mirrored], -1), sign), 0).contiguous()
