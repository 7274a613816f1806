"""Random counts as PyTorch's CPU kernels draw them: numbers of events (Poisson) and of successes (binomial)."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.random_streams.distributions import encode, uniform_doubles
from webgpu_torch_core.random_streams.streams import MersenneTwister

# ln(k!) less Stirling's formula without its series, for k from 0 to 9.
_STIRLING_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


@contextmanager
def _uniform(
    generator: MersenneTwister, count: int, drawn: Callable[[MersenneTwister, int], list[float]]
) -> Generator[Callable[[], float]]:
    """Give a function that returns the next uniform number of the stream; about ``count`` will be asked for, a few more or less.

    Numbers are drawn ahead, many at a time, and the stream then goes on after the last one that was taken.
    """
    at_once = min(max(count, 1), 1 << 15)
    start, left = generator.position(), iter(())

    def numbers() -> Iterator[Iterator[float]]:
        nonlocal start, left
        while True:
            start, left = generator.position(), iter(drawn(generator, at_once))
            yield left

    yield chain.from_iterable(numbers()).__next__
    ahead = sum(1 for _ in left)
    if ahead:
        generator.move_to(*start)
        generator.words64(at_once - ahead)


def _logarithm(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def fill_poisson(
    generator: MersenneTwister,
    rates: Sequence[float],
    element: dtype,
    drawn: Callable[[MersenneTwister, int], list[float]] = uniform_doubles,
) -> array[Any]:
    """Return one count per rate, as :func:`torch.poisson`.

    From a rate of 10 on by transformed rejection: W. Hoermann, "The transformed rejection method for generating Poisson random
    variables", 1993 (PTRS); below by products of uniform numbers (D. Knuth). ``drawn`` returns a stream's next numbers. Raises
    RuntimeError for a negative rate.
    """
    if any(map((0.0).__gt__, rates)):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    found: list[float] = []
    with _uniform(generator, 4 * len(rates), drawn) as uniform:
        for rate in rates:
            if not 0.0 < rate < 10.0:
                found.append(_poisson(rate, uniform) if rate else 0.0)
                continue
            limit, product, count = math.exp(-rate), uniform(), 0
            while product > limit:
                product *= uniform()
                count += 1
            found.append(count)
    return encode(found, element)


def _poisson(rate: float, uniform: Callable[[], float]) -> float:
    root, logarithm = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    tight = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform() - 0.5
        v = uniform()
        margin = 0.5 - abs(u)
        if margin == 0.0:
            continue
        k = math.floor((2.0 * a / margin + b) * u + rate + 0.43)
        if margin >= 0.07 and v <= tight:
            return float(k)
        if k < 0 or (margin < 0.013 and v > margin):
            continue
        accepted = _logarithm(v) + math.log(scale) - math.log(a / (margin * margin) + b)
        if accepted <= -rate + k * logarithm - math.lgamma(k + 1.0):
            return float(k)


def fill_binomial(
    generator: MersenneTwister,
    counts: Sequence[float],
    probabilities: Sequence[float],
    element: dtype,
    drawn: Callable[[MersenneTwister, int], list[float]] = uniform_doubles,
) -> array[Any]:
    """Return one number of successes per pair of trials and probability, as :func:`torch.binomial`.

    Few expected successes add up geometric waits; others use transformed rejection: W. Hoermann, "The generation of binomial
    random variates", 1993 (BTRS).
    """
    with _uniform(generator, 4 * len(counts), drawn) as uniform:
        return encode([_binomial(n, p, uniform) for n, p in zip(counts, probabilities, strict=True)], element)


def _binomial(count: float, probability: float, uniform: Callable[[], float]) -> float:
    if count <= 0.0 or probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return count
    if probability > 0.5:
        return count - _binomial_below_half(count, 1.0 - probability, uniform)
    return _binomial_below_half(count, probability, uniform) if probability <= 0.5 else math.nan


def _binomial_below_half(count: float, probability: float, uniform: Callable[[], float]) -> float:
    if count * probability >= 10.0:
        return _binomial_rejection(count, probability, uniform)
    divisor, waited, successes = math.log1p(-probability), 0.0, 0
    while True:
        drawn = uniform()
        waited += math.ceil(math.log(drawn) / divisor) if drawn > 0.0 else math.inf
        if waited > count:
            return float(successes)
        successes += 1


def _binomial_rejection(count: float, p: float, uniform: Callable[[], float]) -> float:
    deviation = math.sqrt(count * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = count * p + 0.5
    tight = 0.92 - 4.2 / b
    odds = p / (1.0 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((count + 1.0) * p)
    while True:
        u = uniform() - 0.5
        v = uniform()
        margin = 0.5 - abs(u)
        if margin == 0.0:
            continue
        k = math.floor((2.0 * a / margin + b) * u + center)
        if k < 0 or k > count:
            continue
        if margin >= 0.07 and v <= tight:
            return float(k)
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (count - mode + 1.0)))
            + (count + 1.0) * math.log((count - mode + 1.0) / (count - k + 1.0))
            + (k + 0.5) * math.log(odds * (count - k + 1.0) / (k + 1.0))
            + _stirling_tail(mode) + _stirling_tail(count - mode) - _stirling_tail(k) - _stirling_tail(count - k)
        )  # fmt: skip
        if _logarithm(v * alpha / (a / (margin * margin) + b)) <= bound:
            return float(k)


def _stirling_tail(k: float) -> float:
    if k <= 9:
        return _STIRLING_TAILS[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
