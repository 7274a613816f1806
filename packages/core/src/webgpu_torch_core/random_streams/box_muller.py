"""The Box-Muller transform in the arithmetic of PyTorch's CPU kernels, rounding for rounding.

PyTorch's float32 kernel computes logarithm, sine and cosine by the single-precision polynomials of the Cephes library
(S. Moshier), eight lanes at a time, with every product that feeds a sum fused into it. Here each step is done in
double precision for a whole list and rounded to float32 by ``array('f')``: a product of two float32 numbers is exact
in a double, so one rounding follows, as in hardware. (A fused sum may round twice, about once in 2**29 operations.)
"""

from __future__ import annotations

import math
from array import array

from ..ir.scalar_math import fused_multiply_add

_CHUNK = 4096


def _single(*values: float) -> tuple[float, ...]:
    return tuple(array("f", values))


_LOG_COEFFICIENTS = _single(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_LOG_TWO_LOW, _LOG_TWO_HIGH, _SQRT_HALF = _single(-2.12194440e-4, 0.693359375, 0.707106781186547524)
_SINE_COEFFICIENTS = _single(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE_COEFFICIENTS = _single(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI_PARTS = _single(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
_FOUR_OVER_PI, _TWO_PI = _single(1.27323954473516, 2 * math.pi)


def _multiply(left: array[float], right: array[float]) -> array[float]:
    return array("f", [a * b for a, b in zip(left, right)])


def _multiply_add(left: array[float], right: array[float], addend: array[float]) -> array[float]:
    return array("f", [a * b + c for a, b, c in zip(left, right, addend)])


def _horner(coefficients: tuple[float, ...], x: array[float]) -> array[float]:
    first, second, *rest = coefficients
    result = array("f", [first * a + second for a in x])
    for coefficient in rest:
        result = array("f", [b * a + coefficient for a, b in zip(x, result)])
    return result


def _log(values: list[float]) -> array[float]:
    """Return the natural logarithms of float32 numbers in (0, 1]."""
    parts = [math.frexp(value) for value in values]
    x = array("f", [m + m - 1.0 if m < _SQRT_HALF else m - 1.0 for m, _ in parts])
    exponent = array("f", [e - 1 if m < _SQRT_HALF else e for m, e in parts])
    square = _multiply(x, x)
    y = _multiply(_horner(_LOG_COEFFICIENTS, x), x)
    low = array("f", [e * _LOG_TWO_LOW for e in exponent])
    y = _multiply_add(y, square, low)
    y = array("f", [b - 0.5 * z for b, z in zip(y, square)])
    total = array("f", [a + b for a, b in zip(x, y)])
    return array("f", [e * _LOG_TWO_HIGH + a for e, a in zip(exponent, total)])


def _sine_cosine(angles: array[float]) -> tuple[list[float], list[float]]:
    """Return sines and cosines of float32 angles in [0, 2 pi]."""
    scaled = array("f", [a * _FOUR_OVER_PI for a in angles])
    octants = [(int(a) + 1) & ~1 for a in scaled]
    x = angles
    for part in _QUARTER_PI_PARTS:
        x = array("f", [j * part + a for j, a in zip(octants, x)])
    square = _multiply(x, x)
    cosine = _multiply(_horner(_COSINE_COEFFICIENTS, square), square)
    cosine = array("f", [c * z - 0.5 * z for c, z in zip(cosine, square)])
    cosine = array("f", [c + 1.0 for c in cosine])
    sine = _multiply(_horner(_SINE_COEFFICIENTS, square), square)
    sine = _multiply_add(sine, x, x)
    sines = [(-1.0 if j & 4 else 1.0) * (c if j & 2 else s) for j, s, c in zip(octants, sine, cosine)]
    cosines = [(1.0 if (j - 2) & 4 else -1.0) * (s if j & 2 else c) for j, s, c in zip(octants, sine, cosine)]
    return sines, cosines


def normal_float32(words: array[int], mean: float, std: float) -> array[float]:
    """Return float32 normal numbers, as many as words, from blocks laid out as by :func:`~.random_streams.normal_words`."""
    mean, std = _single(mean, std)
    result = array("f", bytes(4 * len(words)))
    for start in range(0, len(words), 2 * _CHUNK):
        block_words = words[start : start + 2 * _CHUNK]
        radius_words, angle_words = _split_blocks(block_words)
        logarithm = _log([1.0 - (w & 0xFFFFFF) * 2.0**-24 for w in radius_words])
        radius = array("f", [math.sqrt(-2.0 * a) for a in logarithm])
        sines, cosines = _sine_cosine(array("f", [(w & 0xFFFFFF) * 2.0**-24 * _TWO_PI for w in angle_words]))
        first = array("f", [a * b for a, b in zip(radius, cosines)])
        second = array("f", [a * b for a, b in zip(radius, sines)])
        if std != 1.0 or mean != 0.0:
            first = array("f", [a * std + mean for a in first])
            second = array("f", [a * std + mean for a in second])
        else:
            # Adding the mean 0 turns -0 into 0.
            first, second = array("f", [a + 0.0 for a in first]), array("f", [a + 0.0 for a in second])
        for lane in range(8):
            result[start + lane : start + len(block_words) : 16] = _lane(first, lane)
            result[start + 8 + lane : start + len(block_words) : 16] = _lane(second, lane)
    return result


def normal_float64(words: array[int], mean: float, std: float) -> array[float]:
    """Return float64 normal numbers, as many as 64-bit words, from blocks of 16."""
    result = array("d", bytes(8 * len(words)))
    radius_words, angle_words = _split_blocks(words)
    mask = (1 << 53) - 1
    radius = [math.sqrt(-2.0 * math.log(1.0 - (w & mask) * 2.0**-53)) for w in radius_words]
    angles = [2.0 * math.pi * ((w & mask) * 2.0**-53) for w in angle_words]
    first = array("d", [fused_multiply_add(r * math.cos(a), std, mean) for r, a in zip(radius, angles)])
    second = array("d", [fused_multiply_add(r * math.sin(a), std, mean) for r, a in zip(radius, angles)])
    for lane in range(8):
        result[lane::16] = _lane(first, lane)
        result[8 + lane :: 16] = _lane(second, lane)
    return result


def _split_blocks(words: array[int]) -> tuple[array[int], array[int]]:
    """Return words 0-7 of every block of 16, and words 8-15."""
    half = len(words) // 2
    first, second = (
        array(words.typecode, bytes(words.itemsize * half)),
        array(words.typecode, bytes(words.itemsize * half)),
    )
    for lane in range(8):
        first[lane::8] = words[lane::16]
        second[lane::8] = words[8 + lane :: 16]
    return first, second


def _lane(values: array[float], lane: int) -> array[float]:
    return values[lane::8]
