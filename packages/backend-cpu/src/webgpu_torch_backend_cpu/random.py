"""PyTorch's CPU random numbers, vectorised: the bits of :mod:`webgpu_torch_core.random_streams.distributions`, much faster.

The words are those of the core's generator, so both may take turns on one stream; many at once come from NumPy's own Mersenne
Twister, which takes the state over and hands it back. Here, too, a fused multiply-add of
float32 numbers is a product and a sum in double precision, rounded once; logarithms, sines and cosines of doubles are
the C library's, since NumPy's own differ from it in the last bit.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float32, float64
from webgpu_torch_core.ir.scalar_math import fused_multiply_add
from webgpu_torch_core.random_streams import counts, drawing
from webgpu_torch_core.random_streams.distributions import power
from webgpu_torch_core.random_streams.streams import MersenneTwister

from . import compiled_draws
from .normal_numbers import RUN, normal_singles
from .permutations import permutation
from .poisson_numbers import poisson
from .pool import Pool, aligned, empty
from .printer import TYPES
from .runtime import fused_doubles, to_bfloat16
from .uniform_numbers import CHUNK, LOW_53, doubles, runs_of_words, unit_doubles, unit_singles, words

Array = Any

#: fewer elements are quicker, and in part drawn otherwise, one by one
SMALLEST = 16
#: elements drawn at a time of distributions whose draws follow each other, a multiple of 16: longer runs need no more memory
PIECE = 1 << 18
#: bytes up to which what is drawn lies in memory that the pool keeps: more are mostly weights, drawn once
MOST_KEPT = 1 << 23


def draw(kind: str, stream: Any, count: int, element: dtype, first: Any, second: Any, pool: Pool | None = None) -> Any:
    """Return ``count`` draws of a distribution as host bytes; arguments and errors as :func:`~webgpu_torch_core.random_streams.drawing.draw`.

    ``pool`` has memory for what is worth it, or is None.
    """
    pool = pool or Pool()
    if kind == "permutation" and count >= SMALLEST:
        with np.errstate(all="ignore"):
            return permutation(stream, count).view(np.uint8)
    chosen = _VECTORISED.get(kind)
    # One sample of many weights takes as many numbers as there are weights.
    drawn = max(count, len(first) // element.itemsize) if kind == "multinomial" else count
    if chosen is None or drawn < SMALLEST or element.category > 2 or not _is_valid(kind, element, first, second):
        return drawing.draw(kind, stream, count, element, first, second)
    with np.errstate(all="ignore"):
        if kind not in _ONE_BY_ONE or (count < 2 * PIECE and kind != "normal"):
            return np.ascontiguousarray(chosen(stream, count, element, first, second)).view(np.uint8)
        nbytes = count * element.itemsize
        memory = pool.take(nbytes) if nbytes <= MOST_KEPT else aligned(nbytes, np.ndarray)
        result = memory.view(TYPES[element.name])
        if kind == "normal":
            _normal(stream, element, first, second, result)
            return memory
        for start in range(0, count - PIECE + 1, PIECE):
            stop = start + PIECE if start + 2 * PIECE <= count else count
            result[start:stop] = chosen(stream, stop - start, element, first, second)
        return memory


def _is_valid(kind: str, element: dtype, first: Any, second: Any) -> bool:
    """Return whether the arguments are ordinary: the core raises for the others, or draws them slowly."""
    if kind in ("poisson", "binomial"):
        return element in (float32, float64)
    if kind in ("bernoulli_of", "multinomial"):
        return _are_valid(kind, element, first, second)
    if kind == "integers":
        return first < second and (element.category == 1 or -(1 << 24) <= first < second <= 1 << 24)
    if kind == "bernoulli":
        return 0.0 <= first <= 1.0
    if element.category < 2 or not all(math.isfinite(each) and abs(each) < 1e100 for each in (first, second)):
        return False
    if kind in ("log_normal", "cauchy"):
        return element is not float64 and second > 0.0
    if kind == "geometric":
        return 0.0 < first < 1.0
    return {"uniform": first <= second, "normal": second >= 0.0, "exponential": first > 0.0}[kind]


def _are_valid(kind: str, element: dtype, data: Any, options: Any) -> bool:
    """Return whether every probability or weight is ordinary, and of a type that NumPy computes with as PyTorch does."""
    of = options if kind == "bernoulli_of" else element
    if of not in (float32, float64):
        return False
    values = np.frombuffer(data, TYPES[of.name])
    if kind == "bernoulli_of":
        return not values.size or bool(values.min() >= 0 and values.max() <= 1)
    rows, samples, replacement = options
    table = values.reshape(rows, -1)
    if not table.size or not 0 < samples or not (replacement or samples <= table.shape[1]):
        return False
    # What is not a number is neither above nor below anything.
    greatest = table.max(1)
    return bool(table.min() >= 0 and greatest.min() > 0 and greatest.max() < np.inf)


def _uniform_words(stream: Any, count: int, element: dtype) -> Array:
    return words(stream, count, np.uint64 if element is float64 else np.uint32)


def _normal_words(stream: MersenneTwister, count: int, element: dtype) -> Iterator[np.ndarray]:
    """Yield what :func:`random_streams.normal_words` returns in runs of whole blocks, the last one with what is drawn anew."""
    kind, remainder = np.uint64 if element is float64 else np.uint32, count % 16
    previous: np.ndarray | None = None
    for run in runs_of_words(stream, count - remainder, kind, RUN):
        if previous is not None:
            yield previous
        previous = run
    assert previous is not None
    if remainder:
        if element.itemsize > 2:
            words(stream, remainder, kind)
        previous = np.concatenate((previous, words(stream, 16, kind)))
    yield previous


def _encode(values: Array, element: dtype) -> Array:
    """Return float32 numbers in the storage of a floating type."""
    if element is bfloat16:
        return to_bfloat16(values)
    return values if element is float32 else values.astype(TYPES[element.name])


def _uniform(stream: Any, count: int, element: dtype, low: float, high: float) -> Array:
    plain = low == 0.0 and high == 1.0
    if element is float64:
        draws = doubles(stream, count)
        if plain:
            return draws
        draws = fused_doubles(draws, high - low, low)
        return np.where(draws == high, low, draws)
    draws = unit_singles(words(stream, count, np.uint32))
    if plain and element is float32:
        return draws
    if not plain:
        base, top = np.float32(low), np.float32(high)
        draws = (draws * np.float64(top - base) + np.float64(base)).astype(np.float32)
    result = _encode(draws, element)
    # Rounding may reach the upper bound, which the interval does not contain.
    low_element, high_element = (_encode(np.float32(each).reshape(1), element)[0] for each in (low, high))
    return np.where(result == high_element, low_element, result)


def _normal(stream: MersenneTwister, element: dtype, mean: float, std: float, into: np.ndarray) -> None:
    """Write normal numbers, as many as there is room for."""
    place, whole = 0, into.size - into.size % 16
    for drawn in _normal_words(stream, into.size, element):
        last = drawn.size if place + drawn.size <= whole else drawn.size - 16
        apart = element.itemsize == 2 or last < drawn.size
        numbers = np.float64 if element is float64 else np.float32
        made = empty((drawn.size,), numbers) if apart else into[place : place + drawn.size]
        if not compiled_draws.normal(drawn, mean, std, made):
            (_normal_doubles if element is float64 else normal_singles)(drawn, mean, std, made)
        if apart:
            into[place : place + last] = _encode(made[:last], element)
            if last < drawn.size:
                # The last block is drawn anew, of what would be partly beyond the end.
                into[-16:] = _encode(made[-16:], element)
        place += last


def _normal_doubles(words: np.ndarray, mean: float, std: float, into: np.ndarray) -> None:
    words, result = words.reshape(-1, 16), into.reshape(-1, 16)
    radius = np.sqrt(-2.0 * _each(math.log, 1.0 - unit_doubles(words[:, :8])))
    angle = 2.0 * math.pi * unit_doubles(words[:, 8:])
    result[:, :8] = fused_doubles(radius * _each(math.cos, angle), std, mean)
    result[:, 8:] = fused_doubles(radius * _each(math.sin, angle), std, mean)


def _each(function: Callable[[float], float], values: Array) -> Array:
    flat = values.reshape(-1)
    return np.fromiter(map(function, flat.tolist()), np.float64, flat.size).reshape(values.shape)


def _bernoulli(stream: Any, count: int, element: dtype, p: float, _: Any) -> Array:
    drawn = (words(stream, count, np.uint64) & LOW_53) < np.uint64(math.ceil(p * 2.0**53))
    return _encode(drawn.astype(np.float32), element) if element.category == 2 else drawn.astype(TYPES[element.name])


def _exponential(stream: Any, count: int, element: dtype, rate: float, _: Any) -> Array:
    draws = doubles(stream, count)
    if element is float64:
        return (-1.0 / rate) * _each(math.log1p, -draws)
    return _encode(_rounded(draws, np.log1p(-draws) * (-1.0 / rate), lambda u: (-1.0 / rate) * math.log1p(-u)), element)


def _rounded(arguments: Array, results: Array, exact: Callable[[float], float]) -> Array:
    """Return doubles as float32 numbers; where an error in their last bits could decide, ``exact`` computes them anew."""
    margin = np.abs(results) * 2.0**-48
    return _decided(results - margin, results + margin, lambda places: map(exact, arguments[places].tolist()))


def _decided(below: Array, above: Array, exact: Callable[[Array], Iterable[float]]) -> Array:
    """Return the float32 numbers that doubles between two bounds round to; ``exact`` gives the doubles at places where these differ."""
    found = above.astype(np.float32)
    doubtful = np.flatnonzero(found != below.astype(np.float32))
    found[doubtful] = array("f", exact(doubtful))
    return found


def _log_normal(stream: MersenneTwister, count: int, element: dtype, mean: float, std: float) -> Array:
    """Return what :func:`~webgpu_torch_core.random_streams.distributions.fill_log_normal` returns."""
    kept, stream.next_double_normal_sample = stream.next_double_normal_sample, None
    first = kept is not None
    draws = doubles(stream, (count - first + 1) // 2 * 2).reshape(-1, 2)
    radius, angle = np.sqrt(-2.0 * np.log1p(-draws[:, 1])), 2.0 * math.pi * draws[:, 0]
    samples = np.empty(draws.size + first)
    np.multiply(radius, np.cos(angle), out=samples[first::2])
    np.multiply(radius, np.sin(angle), out=samples[first + 1 :: 2])
    if kept is not None:
        samples[0] = kept

    def sample(place: int) -> float:
        if kept is not None and not place:
            return kept
        turn, depth = draws[(place - first) // 2].tolist()
        of = math.sin if (place - first) % 2 else math.cos
        return math.sqrt(-2.0 * math.log1p(-depth)) * of(2.0 * math.pi * turn)

    if samples.size > count:
        stream.next_double_normal_sample = sample(count)
    spread = samples[:count] * std
    # The exponential makes a relative error of what is an absolute one before.
    margin = (np.abs(spread) + abs(mean) + 1.0) * 2.0**-47
    logarithms = spread + mean
    result = np.exp(logarithms)
    margin *= result
    return _encode(
        _decided(
            result - margin, result + margin,
            lambda places: (power(fused_multiply_add(sample(each), std, mean)) for each in places.tolist()),
        ),
        element,
    )  # fmt: skip


def _cauchy(stream: MersenneTwister, count: int, element: dtype, median: float, sigma: float) -> Array:
    """Return what :func:`~webgpu_torch_core.random_streams.distributions.fill_cauchy` returns."""
    angles = math.pi * (doubles(stream, count) - 0.5)
    spread = sigma * np.tan(angles)
    margin = (np.abs(spread) + abs(median)) * 2.0**-47
    spread += median

    def exact(places: Array) -> Iterable[float]:
        return (fused_multiply_add(sigma, math.tan(each), median) for each in angles[places].tolist())

    return _encode(_decided(spread - margin, spread + margin, exact), element)


def _geometric(stream: MersenneTwister, count: int, element: dtype, p: float, _: object) -> Array:
    """Return what :func:`~webgpu_torch_core.random_streams.distributions.fill_geometric` returns."""
    draws, divisor = doubles(stream, count), math.log1p(-p)
    trials = np.log(draws) / divisor
    result, above = np.ceil(trials * (1.0 - 2.0**-48)), np.ceil(trials * (1.0 + 2.0**-48))
    for place in np.flatnonzero(result != above).tolist():
        result[place] = math.ceil(math.log(draws[place]) / divisor)
    return result if element is float64 else _encode(result.astype(np.float32), element)


def _integers(stream: Any, count: int, element: dtype, low: int, high: int) -> Array:
    span = high - low
    kind = np.uint64 if span >= 1 << 28 else np.uint32
    draws = words(stream, count, kind)
    values = np.empty(count, np.uint64)
    for start in range(0, count, CHUNK):
        part, rest = draws[start : start + CHUNK], values[start : start + CHUNK]
        # The remainder: NumPy has vector instructions for the quotient by one number only.
        rest[...] = part if span >= 1 << 64 else part - part // kind(span) * kind(span)
        # Two's complement: the sum wraps to the right integer whatever the sign of the bound.
        rest += np.uint64(low & 0xFFFFFFFFFFFFFFFF)
    values = values.view(np.int64)
    return (
        _encode(values.astype(np.float32), element)
        if element.category == 2 and element is not float64
        else values.astype(TYPES[element.name], copy=False)
    )


def _bernoulli_of(stream: Any, count: int, element: dtype, chances: Any, kind: dtype) -> Array:
    p = np.frombuffer(chances, TYPES[kind.name])
    drawn = (doubles(stream, count) if kind is float64 else unit_singles(words(stream, count, np.uint32))) < p
    return _encode(drawn.astype(np.float32), element) if element.category == 2 else drawn.astype(TYPES[element.name])


def _multinomial(stream: Any, count: int, element: dtype, weights: Any, options: tuple[int, int, bool]) -> Array:
    """Return what :func:`~webgpu_torch_core.random_streams.distributions.fill_multinomial` returns."""
    rows, samples, replacement = options
    table = np.frombuffer(weights, TYPES[element.name]).reshape(rows, -1)
    if replacement and samples > 1:
        return _replaced(table, doubles(stream, count).reshape(rows, samples))
    waits = _exponential(stream, table.size, element, 1.0, None).reshape(table.shape)
    scores = np.where(waits == 0, np.inf, table / waits)
    if samples == 1:
        return scores.argmax(1)
    return np.stack([_greatest(row, samples) for row in scores])


def _replaced(table: Array, draws: Array) -> Array:
    """Return in which share of its row's weights each draw lies; rows are taken together as far as their sums stay in cache."""
    limits = draws.astype(table.dtype, copy=False)
    # The least number of the weights' type that is no less than a draw finds what the draw does.
    limits = np.where(limits < draws, np.nextafter(limits, table.dtype.type(np.inf)), limits)
    result = compiled_draws.shares(table, limits)
    if result is not None:
        return result
    result = np.empty(draws.shape, np.int64)
    step = max(CHUNK // table.shape[1], 1)
    for start in range(0, len(table), step):
        # One running sum after the other in the type of the weights, as PyTorch adds.
        sums = np.cumsum(table[start : start + step], axis=1, dtype=table.dtype)
        sums /= sums[:, -1:].copy()
        sums[:, -1] = 1.0
        for number, row in enumerate(sums, start):
            result[number] = row.searchsorted(limits[number])
    return result


def _greatest(scores: Array, count: int) -> Array:
    """Return the positions of the greatest numbers in falling order, of equal ones the first first."""
    if count * 4 > scores.size:
        return np.argsort(-scores, kind="stable")[:count]
    candidates = np.flatnonzero(scores >= np.partition(scores, scores.size - count)[scores.size - count])
    return candidates[np.argsort(-scores[candidates], kind="stable")[:count]]


def _poisson(stream: MersenneTwister, count: int, element: dtype, rates: bytearray, _: object) -> Array:
    """Return what :func:`counts.fill_poisson` returns: how many numbers each takes is known only when it has taken them."""
    table = np.frombuffer(rates, TYPES[element.name]).astype(np.float64)
    if ((table >= 0) & (table < np.inf)).all():
        found = compiled_draws.poisson(stream, table)
        found = poisson(stream, table) if found is None else found
        if found is not None:
            return found.astype(TYPES[element.name])
    return np.frombuffer(counts.fill_poisson(stream, _listed(rates, element), element, _listed_doubles), np.uint8)


def _binomial(stream: MersenneTwister, count: int, element: dtype, trials: bytearray, chances: bytearray) -> Array:
    """Return what :func:`counts.fill_binomial` returns."""
    numbers = _listed(trials, element), _listed(chances, element)
    return np.frombuffer(counts.fill_binomial(stream, *numbers, element, _listed_doubles), np.uint8)


def _listed(data: bytearray, element: dtype) -> list[float]:
    return np.frombuffer(data, TYPES[element.name]).tolist()


def _listed_doubles(stream: MersenneTwister, count: int) -> list[float]:
    return doubles(stream, count).tolist()


_ONE_BY_ONE = ("uniform", "normal", "bernoulli", "exponential", "integers", "log_normal", "cauchy", "geometric")
_VECTORISED = {
    "uniform": _uniform, "normal": _normal, "bernoulli": _bernoulli, "exponential": _exponential, "integers": _integers,
    "bernoulli_of": _bernoulli_of, "multinomial": _multinomial,
    "poisson": _poisson, "binomial": _binomial, "log_normal": _log_normal, "cauchy": _cauchy, "geometric": _geometric,
}  # fmt: skip
