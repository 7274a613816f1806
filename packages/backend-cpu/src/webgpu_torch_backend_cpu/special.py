"""Special functions NumPy lacks, vectorised: in double precision, and erf of float32 in single precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np

Array = Any

# Rational approximations of erf and erfc from the Cephes library (S. L. Moshier), file ndtr.c.
_ERF_T = (
    9.60497373987051638749e0,
    9.00260197203842689217e1,
    2.23200534594684319226e3,
    7.00332514112805075473e3,
    5.55923013010394962768e4,
)
_ERF_U = (
    1.0,
    3.35617141647503099647e1,
    5.21357949780152679795e2,
    4.59432382970980127987e3,
    2.26290000613890934246e4,
    4.92673942608635921086e4,
)
_ERFC_P = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0, 4.86371970985681366614e1, 1.96520832956077098242e2,
    5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
)  # fmt: skip
_ERFC_Q = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2, 1.82390916687909736289e3,
    2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
_ERFC_R = (
    5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0, 6.16021097993053585195e0, 7.40974269950448939160e0,
    2.97886665372100240670e0,
)  # fmt: skip
_ERFC_S = (
    1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1, 1.70814450747565897222e1, 9.60896809063285878198e0,
    3.36907645100081516050e0,
)  # fmt: skip

# atanh(erf(x)) / x of float32 numbers as a polynomial of x squared on [0, 3.85], fitted to the least greatest relative error of erf,
# 9.3e-8, among those that are above 10 from 3.919 on, where erf rounds to 1: NumPy's hyperbolic tangent is 1 from 10 on, not from 9.01.
ERF_ANGLE = tuple(map(np.float32, (
    8.19290558e-09, -4.38002964e-08, -4.11578514e-06, 8.15858867e-05, -6.08364913e-04, -2.01632695e-04, 1.02772199e-01, 1.12837907,
)))  # fmt: skip
_ONE, _THREE, _TINY = np.float32(1.0), np.float32(3.0), np.float32(2.0**-40)


#: elements taken at a time: the numbers in double precision that lead to their results stay in cache
PIECE = 1 << 12


def _in_pieces(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function of doubles, applied to numbers of any type in pieces and rounded once."""

    @wraps(function)
    def applied(x: Array) -> Array:
        x = np.asarray(x)
        result = np.empty(x.shape, x.dtype)
        source, target = x.reshape(-1), result.reshape(-1)
        for start in range(0, source.size, PIECE):
            target[start : start + PIECE] = function(source[start : start + PIECE].astype(np.float64))
        return result

    return applied


def _polynomial(x: Array, coefficients: tuple[np.floating | float, ...]) -> Array:
    first, *inner, last = coefficients
    result = x * first if first != 1.0 else x.copy()
    for each in inner:
        result += each
        result *= x
    result += last
    return result


def _erfc_positive(x: Array) -> Array:
    """Return ``1 - erf(x)`` of numbers from 1 on."""
    near = np.minimum(x, 8.0)
    result = _polynomial(near, _ERFC_P)
    result /= _polynomial(near, _ERFC_Q)
    beyond = (x > 8.0).nonzero()
    if len(beyond[0]):
        far = np.minimum(x[beyond], 1e8)
        result[beyond] = _polynomial(far, _ERFC_R) / _polynomial(far, _ERFC_S)
    result *= np.exp(-x * x)
    return result


def _erf_small(x: Array) -> Array:
    square = x * x
    result = _polynomial(square, _ERF_T)
    result *= x
    result /= _polynomial(square, _ERF_U)
    return result


def _erf_single(x: Array) -> Array:
    """Return the error function of float32 numbers, within 4 units in the last place: NumPy has vector instructions for tanh."""
    square = x * x
    angle = square * ERF_ANGLE[0]
    for each in ERF_ANGLE[1:-1]:
        angle += each
        angle *= square
    angle += ERF_ANGLE[-1]
    angle *= x
    return np.tanh(angle, out=angle)


def _by_type(single: Callable[[Array], Array], double: Callable[[Array], Array], x: Array) -> Array:
    """Return a function of float32 numbers, or of others; one number has the bits that it has among others."""
    if getattr(x, "dtype", None) != np.float32:
        return double(x)
    return single(x) if x.ndim else single(x.reshape(1))[0]


@lru_cache
def _has_vectors(name: str) -> bool:
    """Return whether NumPy says that it has vector instructions of this processor for a function of float32 numbers."""
    try:
        from numpy.lib import introspect
    except ImportError:
        return False
    found = introspect.opt_func_info(func_name=f"^{name}$", signature="float32").get(name, {})
    return any(not each["current"].startswith("baseline") for each in found.values())


def log1p(x: Array) -> Array:
    """Return ``log(1 + x)``; of float32 numbers the rounded sum's logarithm, corrected by how it was rounded.

    The correction is that of W. Kahan ("Implementation of algorithms", 1973): many processors have vector instructions for log only.
    """
    if getattr(x, "dtype", None) != np.float32 or _has_vectors("log1p"):
        return np.log1p(x)
    return _log1p_single(x) if x.ndim else _log1p_of_one(x)


def _log1p_of_one(x: Array) -> Array:
    """Return the same bits for one number, which many passes over arrays would be slow for."""
    total = x + _ONE
    if total == _ONE:
        return x
    exact, result = total - _ONE, np.log(total)
    return result * (x / exact) if exact < np.inf else result


def _log1p_single(x: Array) -> Array:
    total = x + _ONE
    exact = total - _ONE
    result = np.log(total)
    # Where the sum is 1 the number itself is the result, and where it is infinite nothing is to correct.
    exact = np.divide(x, exact, out=np.ones_like(x), where=(exact != 0) & (exact < np.inf))
    result *= exact
    same = total == _ONE
    if same.any():
        np.copyto(result, x, where=same)
    return result


def expm1(x: Array) -> Array:
    """Return ``exp(x) - 1``, of float32 numbers as :func:`log1p`."""
    if getattr(x, "dtype", None) != np.float32 or _has_vectors("expm1"):
        return np.expm1(x)
    return _expm1_single(x) if x.ndim else _expm1_of_one(x)


def _expm1_of_one(x: Array) -> Array:
    """Return the same bits for one number."""
    power = np.exp(x)
    if power == _ONE:
        return x
    return (power - _ONE) * (x / np.log(power)) if _TINY < power < np.inf else power - _ONE


def _expm1_single(x: Array) -> Array:
    power = np.exp(x)
    exact, same = np.log(power), power == _ONE
    # Tiny powers have few digits, and are nothing beside 1.
    kept = (power > _TINY) & (power < np.inf) & ~same
    power -= _ONE
    power *= np.divide(x, exact, out=np.ones_like(x), where=kept)
    if same.any():
        np.copyto(power, x, where=same)
    return power


def erf(x: Array) -> Array:
    """Return the error function."""
    return _by_type(_erf_single, _erf_double, x)


@_in_pieces
def _erf_double(wide: Array) -> Array:
    result = _erf_small(np.clip(wide, -1.0, 1.0))
    large = (np.abs(wide) > 1.0).nonzero()
    if len(large[0]):
        chosen = wide[large]
        # Beyond 8 it rounds to 1.
        result[large] = np.copysign(1.0 - _erfc_positive(np.minimum(np.abs(chosen), 8.0)), chosen)
    return result


# log(erfc(z) exp(z^2) / t) of float32 numbers z in [0, 10.2], below which is all that is not 0, as a polynomial of t - 5 / 8 with
# t = 3 / (3 + z): fitted to the least greatest error, 1.5e-8, as above.
ERFC_EXPONENT = tuple(map(np.float32, (
    -0.311949611, -0.188317478, 0.366868556, 0.35243389, -0.251418859, -0.534632981, -0.037242718,
    0.875350714, 1.86181164, -0.808117807,
)))  # fmt: skip


#: where what it is computed by ends, the middle of what its polynomial takes, and what times a number has the upper half of its digits
ERFC_END, ERFC_MIDDLE, SPLIT = np.float32(10.5), np.float32(0.625), np.float32(2.0**12 + 1)


def _erfc_single(x: Array) -> Array:
    """Return ``1 - erf(x)`` of float32 numbers, within 6 units in the last place; the square in the exponent is a sum of two numbers."""
    size = np.minimum(np.abs(x), ERFC_END)
    turn = _THREE / (size + _THREE)
    exponent = _polynomial(turn - ERFC_MIDDLE, ERFC_EXPONENT)
    # Half of the digits (T. Dekker, 1971) have an exact square.
    high = size * SPLIT
    high -= high - size
    exponent -= (size - high) * (size + high)
    np.exp(exponent, out=exponent)
    exponent *= turn
    high *= high
    np.negative(high, out=high)
    exponent *= np.exp(high, out=high)
    return np.where(x < 0, np.float32(2.0) - exponent, exponent)


def erfc(x: Array) -> Array:
    """Return ``1 - erf(x)`` without cancellation."""
    return _by_type(_erfc_single, _erfc_double, x)


@_in_pieces
def _erfc_double(wide: Array) -> Array:
    result = 1.0 - _erf_small(np.clip(wide, -1.0, 1.0))
    large = (np.abs(wide) > 1.0).nonzero()
    if len(large[0]):
        chosen = wide[large]
        tail = _erfc_positive(np.abs(chosen))
        result[large] = np.where(chosen < 0, 2.0 - tail, tail)
    return result


# erfinv(x) / x of float32 numbers as polynomials of w = -log((1 - x)(1 + x)): of w - 2.5 up to w = 5, then of sqrt(w) - 3
# (M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2011).
_INVERSE_NEAR = tuple(map(np.float32, (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727,
    1.50140941,
)))  # fmt: skip
_INVERSE_FAR = tuple(map(np.float32, (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406,
    2.83297682,
)))  # fmt: skip


def _erfinv_single(x: Array) -> Array:
    """Return the inverse of erf of float32 numbers, within 8 units in the last place."""
    w = -np.log((_ONE - x) * (_ONE + x))
    result = _polynomial(w - np.float32(2.5), _INVERSE_NEAR)
    # A mask, not numbers of elements: what lies in another order has no flat view to write into.
    far = w >= np.float32(5.0)
    if far.any():
        tails = np.sqrt(w[far])
        ends = _polynomial(tails - np.float32(3.0), _INVERSE_FAR)
        result[far] = np.where(np.isinf(tails), tails, ends)
    result *= x
    return result


def erfinv(x: Array) -> Array:
    """Return the inverse of erf: Winitzki's estimate (2008) refined by Halley steps on erfc, which keeps the tails."""
    return _by_type(_erfinv_single, _erfinv_double, x)


@_in_pieces
def _erfinv_double(wide: Array) -> Array:
    magnitude = np.abs(wide)
    inside = np.minimum(magnitude, 1.0 - 2.0**-53)
    logarithm = np.log1p(-inside * inside)
    half = 2.0 / (np.pi * 0.147) + 0.5 * logarithm
    guess = np.sqrt(np.maximum(np.sqrt(half * half - logarithm / 0.147) - half, 0.0))
    for _ in range(3):
        error = np.where(guess < 0.5, erf(guess) - inside, (1.0 - inside) - erfc(guess))
        step = error / (2.0 / np.sqrt(np.pi) * np.exp(-guess * guess))
        guess = guess - step / (1.0 + guess * step)
    result = np.copysign(guess, wide)
    result = np.where(magnitude == 1.0, np.copysign(np.inf, wide), result)
    return np.where((magnitude > 1.0) | np.isnan(wide), np.nan, result)


#: by how much arguments of gamma are shifted to where its series holds
SHIFT = 10


def _series(z: Array, first: float, *more: float) -> Array:
    result = z * more[-1]
    for each in (*more[-2::-1], first):
        np.subtract(each, result, out=result)
        result *= z
    return result


def _stirling(x: Array) -> Array:
    """Return log(gamma(x)) for x >= 10 (Abramowitz & Stegun 6.1.41)."""
    inverse = 1.0 / x
    series = _series(inverse * inverse, 1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188, 691 / 360360)
    series *= x
    return (x - 0.5) * np.log(x) - x + 0.91893853320467274178 + series


@_in_pieces
def lgamma(wide: Array) -> Array:
    """Return ``log(|gamma(x)|)``: recurrence from 10 on, Stirling's series, reflection below 0.5."""
    reflected = np.flatnonzero(wide < 0.5)
    y = wide.copy()
    y[reflected] = 1.0 - wide[reflected]
    # Where a product of so many passes beyond the largest number it is nothing beside the series.
    factor = np.minimum(y, 1e30)
    product = factor.copy()
    for _ in range(SHIFT - 1):
        factor += 1.0
        product *= factor
    result = _stirling(y + SHIFT)
    result -= np.log(product)
    result[(y == 1.0) | (y == 2.0)] = 0.0
    below = wide[reflected]
    distance = np.abs(below - np.rint(below))
    mirrored = np.log(np.pi) - np.log(np.abs(np.sin(np.pi * distance))) - result[reflected]
    result[reflected] = np.where(distance == 0, np.inf, mirrored)
    result[np.isinf(wide)] = np.inf
    return result


@_in_pieces
def digamma(wide: Array) -> Array:
    """Return the logarithmic derivative of gamma (Abramowitz & Stegun 6.3.5, 6.3.7, 6.3.18)."""
    negative = np.flatnonzero(wide < 0)
    y = wide.copy()
    y[negative] = 1.0 - wide[negative]
    total = 1.0 / y
    for _ in range(SHIFT - 1):
        y += 1.0
        total += 1.0 / y
    y += 1.0
    inverse = 1.0 / y
    result = np.log(y)
    result -= total
    result -= 0.5 * inverse
    result -= _series(inverse * inverse, 1 / 12, 1 / 120, 1 / 252, 1 / 240, 1 / 132, 691 / 32760, 1 / 12)
    # The distance to the nearest integer, not the one below: that would lose all digits just below zero.
    below = wide[negative]
    distance = below - np.rint(below)
    mirrored = result[negative] - np.pi / np.tan(np.pi * distance)
    result[negative] = np.where(distance == 0, np.nan, mirrored)
    zero = wide == 0
    result[zero] = np.copysign(np.inf, -wide[zero])
    return result
