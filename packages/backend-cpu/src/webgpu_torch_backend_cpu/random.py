"""PyTorch's CPU random numbers, vectorised: the bits of :mod:`webgpu_torch_core.random_streams.distributions`, much faster.

The words come from the core's generator, so both may take turns on one stream. Here, too, a fused multiply-add of
float32 numbers is a product and a sum in double precision, rounded once; logarithms, sines and cosines of doubles are
the C library's, since NumPy's own differ from it in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float32, float64
from webgpu_torch_core.random_streams import box_muller as scalar
from webgpu_torch_core.random_streams import distributions as core
from webgpu_torch_core.random_streams.streams import integer_words, normal_words, uniform_words

from .printer import TYPES
from .runtime import to_bfloat16

Array = Any

#: fewer elements are quicker, and in part drawn otherwise, one by one
SMALLEST = 16
#: elements transformed at a time: their intermediate values stay in cache
CHUNK = 8192

_LOW_24, _LOW_53 = np.uint32(0xFFFFFF), np.uint64((1 << 53) - 1)
_UNIT_24, _UNIT_53 = np.float32(2.0**-24), 2.0**-53


def draw(kind: str, stream: Any, count: int, element: dtype, first: Any, second: Any) -> Any:
    """Return ``count`` draws of a distribution as host bytes; arguments and errors as :func:`random_distributions.draw`."""
    chosen = _VECTORISED.get(kind)
    if chosen is None or count < SMALLEST or element.category > 2 or not _is_valid(kind, element, first, second):
        return core.draw(kind, stream, count, element, first, second)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(chosen(stream, count, element, first, second)).view(np.uint8)


def _is_valid(kind: str, element: dtype, first: Any, second: Any) -> bool:
    """Return whether the arguments are ordinary: the core raises for the others, or draws them slowly."""
    if kind == "integers":
        return first < second and (element.category == 1 or -(1 << 24) <= first < second <= 1 << 24)
    if kind == "bernoulli":
        return 0.0 <= first <= 1.0
    if element.category < 2 or not all(math.isfinite(each) and abs(each) < 1e100 for each in (first, second)):
        return False
    return {"uniform": first <= second, "normal": second >= 0.0, "exponential": first > 0.0}[kind]


def _encode(values: Array, element: dtype) -> Array:
    """Return float32 numbers in the storage of a floating type."""
    if element is bfloat16:
        return to_bfloat16(values)
    return values if element is float32 else values.astype(TYPES[element.name])


def _doubles(stream: Any, count: int) -> Array:
    return _unit_doubles(np.frombuffer(uniform_words(stream, count, float64), np.uint64))


def _unit_doubles(words: Array) -> Array:
    return (words & _LOW_53).astype(np.float64) * _UNIT_53


def _unit_singles(words: Array) -> Array:
    return (words & _LOW_24).astype(np.float32) * _UNIT_24


def _uniform(stream: Any, count: int, element: dtype, low: float, high: float) -> Array:
    plain = low == 0.0 and high == 1.0
    if element is float64:
        draws = _doubles(stream, count)
        if plain:
            return draws
        draws = fused_multiply_add(draws, high - low, low)
        return np.where(draws == high, low, draws)
    draws = _unit_singles(np.frombuffer(uniform_words(stream, count, element), np.uint32))
    if not plain:
        base, top = np.float32(low), np.float32(high)
        draws = (draws * np.float64(top - base) + np.float64(base)).astype(np.float32)
    result = _encode(draws, element)
    # Rounding may reach the upper bound, which the interval does not contain.
    low_element, high_element = (_encode(np.float32(each).reshape(1), element)[0] for each in (low, high))
    return np.where(result == high_element, low_element, result)


def _normal(stream: Any, count: int, element: dtype, mean: float, std: float) -> Array:
    words = normal_words(stream, count, element)
    if element is float64:
        blocks = _normal_doubles(np.frombuffer(words, np.uint64).reshape(-1, 16), mean, std)
    else:
        blocks = _encode(_normal_singles(np.frombuffer(words, np.uint32).reshape(-1, 16), mean, std), element)
    if count % 16:
        tail = blocks[-16:].copy()
        blocks = blocks[:count]
        blocks[count - 16 :] = tail
    return blocks


def _normal_doubles(words: Array, mean: float, std: float) -> Array:
    result = np.empty(words.shape, np.float64)
    radius = np.sqrt(-2.0 * _each(math.log, 1.0 - _unit_doubles(words[:, :8])))
    angle = 2.0 * math.pi * _unit_doubles(words[:, 8:])
    result[:, :8] = fused_multiply_add(radius * _each(math.cos, angle), std, mean)
    result[:, 8:] = fused_multiply_add(radius * _each(math.sin, angle), std, mean)
    return result.reshape(-1)


def _each(function: Callable[[float], float], values: Array) -> Array:
    flat = values.reshape(-1)
    return np.fromiter(map(function, flat.tolist()), np.float64, flat.size).reshape(values.shape)


def _normal_singles(words: Array, mean: float, std: float) -> Array:
    """Return what :func:`_box_muller.normal_float32` returns, from rows of 16 words."""
    result = np.empty(words.shape, np.float32)
    rows = CHUNK // 8
    wide_mean, wide_std = np.float64(np.float32(mean)), np.float64(np.float32(std))
    for start in range(0, len(words), rows):
        block = words[start : start + rows]
        radius = np.sqrt(np.float32(-2.0) * _log(np.float32(1.0) - _unit_singles(block[:, :8])))
        sine, cosine = _sine_cosine(_unit_singles(block[:, 8:]) * np.float32(scalar._TWO_PI))
        for first, part in ((0, cosine), (8, sine)):
            values = radius * part
            if std != 1.0 or mean != 0.0:
                values = (values * wide_std + wide_mean).astype(np.float32)
            result[start : start + rows, first : first + 8] = values
    # Adding 0 turns -0 into 0, as adding the mean does.
    result += np.float32(0.0)
    return result.reshape(-1)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    """Return a polynomial of float32 numbers held as doubles, rounded to float32 at each fused step."""
    result = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result *= x
        result += coefficient
        result = result.astype(np.float32).astype(np.float64)
    return result.astype(np.float32)


def _fused(left: Array, right: Any, addend: Any) -> Array:
    return (np.multiply(left, right, dtype=np.float64) + addend).astype(np.float32)


def _log(values: Array) -> Array:
    mantissa, exponent = np.frexp(values)
    small = mantissa < np.float32(scalar._SQRT_HALF)
    x = np.where(small, mantissa + mantissa, mantissa) - np.float32(1.0)
    exponent = (exponent - small).astype(np.float32)
    square = x * x
    y = _horner(scalar._LOG_COEFFICIENTS, x.astype(np.float64)) * x
    y = _fused(y, square, exponent * np.float32(scalar._LOG_TWO_LOW))
    y -= np.float32(0.5) * square
    return _fused(exponent, scalar._LOG_TWO_HIGH, x + y)


def _sine_cosine(angles: Array) -> tuple[Array, Array]:
    octants = ((angles * np.float32(scalar._FOUR_OVER_PI)).astype(np.int32) + 1) & ~1
    wide = octants.astype(np.float64)
    x = angles
    for part in scalar._QUARTER_PI_PARTS:
        x = (wide * part + x).astype(np.float32)
    square = x * x
    double = square.astype(np.float64)
    cosine = _horner(scalar._COSINE_COEFFICIENTS, double) * square
    cosine = (cosine.astype(np.float64) * double - 0.5 * double).astype(np.float32) + np.float32(1.0)
    sine = _fused(_horner(scalar._SINE_COEFFICIENTS, double) * square, x, x)
    swapped = (octants & 2) != 0
    sines, cosines = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    np.negative(sines, out=sines, where=(octants & 4) != 0)
    np.negative(cosines, out=cosines, where=((octants - 2) & 4) == 0)
    return sines, cosines


def _bernoulli(stream: Any, count: int, element: dtype, p: float, _: Any) -> Array:
    words = np.frombuffer(uniform_words(stream, count, float64), np.uint64)
    drawn = (words & _LOW_53).astype(np.float64) < p * 2.0**53
    return _encode(drawn.astype(np.float32), element) if element.category == 2 else drawn.astype(TYPES[element.name])


def _exponential(stream: Any, count: int, element: dtype, rate: float, _: Any) -> Array:
    draws = (-1.0 / rate) * _each(math.log1p, -_doubles(stream, count))
    return draws if element is float64 else _encode(draws.astype(np.float32), element)


def _integers(stream: Any, count: int, element: dtype, low: int, high: int) -> Array:
    span = high - low
    words = integer_words(stream, count, span)
    kind = np.uint64 if words.itemsize == 8 else np.uint32
    draws = np.frombuffer(words, kind)
    if span < 1 << (8 * words.itemsize):
        draws = draws % kind(span)
    # Two's complement: the sum wraps to the right integer whatever the sign of the bound.
    wrapped = draws.astype(np.uint64) + np.uint64(low & 0xFFFFFFFFFFFFFFFF)
    values = wrapped.view(np.int64)
    return (
        _encode(values.astype(np.float32), element)
        if element.category == 2 and element is not float64
        else (values.astype(TYPES[element.name]))
    )


_VECTORISED = {
    "uniform": _uniform, "normal": _normal, "bernoulli": _bernoulli, "exponential": _exponential, "integers": _integers,
}  # fmt: skip


def fused_multiply_add(left: Array, right: float, addend: float) -> Array:
    """Return ``left * right + addend`` of doubles, rounded once, as :func:`_box_muller.fused_multiply_add`."""
    product = left * right
    if addend == 0.0:
        return product + addend
    split_left, split_right = left * 134217729.0, right * 134217729.0
    high_left, high_right = split_left - (split_left - left), split_right - (split_right - right)
    low_left, low_right = left - high_left, right - high_right
    error = ((high_left * high_right - product) + high_left * low_right + low_left * high_right) + low_left * low_right
    low, low_error = _two_sum(np.full_like(product, addend), error)
    high, high_error = _two_sum(product, low)
    odd, remainder = _two_sum(low_error, high_error)
    even = (odd.view(np.int64) & 1) == 0
    toward = np.where(remainder > 0, np.inf, -np.inf)
    odd = np.where((remainder != 0) & even, np.nextafter(odd, toward), odd)
    # Products too small to split are nothing beside the addend.
    return np.where(np.abs(product) > 1e-200, high + odd, product + addend)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)
