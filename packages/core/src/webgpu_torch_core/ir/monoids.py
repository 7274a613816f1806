"""Monoids: how reductions, scans and scatters combine values, declared once as expressions.

A monoid is a state of one or more numbers, the state that changes nothing, and an associative way to combine two states.
Backends print its expressions, so that a new monoid needs no change in any of them; they may recognise the ones of this
table (:func:`standard_name`) and use what their target has built in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from .dtypes import bool_, dtype, int64
from .expression import Expression, Number, cast, topological, trace
from .records import Record
from .scalar import bitwise_and, bitwise_or, bitwise_xor, equal, exp, is_nan, less, log, maximum, minimum, where

#: the place in the state of an extremum that has seen no element yet
NOWHERE = -1


class Monoid(Record):
    """``combine(earlier, later)`` over states, associative, with an identity.

    Fields:
        name: for people and profiles.
        states: types of the numbers that make up a state; elements are converted to the first.
        identity: the state that changes nothing, as plain numbers.
        lift: the state of one element, over ``argument(0)``, the element, and ``argument(1)``, its position: in the inner
            dimensions of a row program (row-major), along the last dimension of a scan.
        combine: the combined state, over the earlier state's arguments followed by the later one's.
        results: what a state means, over its arguments. A reduction gives the first; output i of a scan takes result i.
        commutative: whether the order of states does not matter; reductions take their elements in any order.
    """

    __slots__ = fields = ("name", "states", "identity", "lift", "combine", "results", "commutative")
    name: str
    states: tuple[dtype, ...]
    identity: tuple[Number, ...]
    lift: tuple[Expression, ...]
    combine: tuple[Expression, ...]
    results: tuple[Expression, ...]
    commutative: bool

    @property
    def uses_positions(self) -> bool:
        """Whether an element's state depends on where it stands."""
        return any(node.step == "argument" and node.payload == 1 for node in topological(*self.lift))


def define(
    name: str,
    states: Sequence[dtype],
    identity: Sequence[Number],
    combine: Callable[..., Any],
    lift: Callable[..., Any] | None = None,
    results: Callable[..., Any] | None = None,
    commutative: bool = True,
    places: dtype = int64,
) -> Monoid:
    """Return a monoid from functions over scalars, each returning one scalar or a tuple.

    Args:
        combine: ``combine(*earlier, *later)`` gives the state's numbers.
        lift: ``lift(element, position)``; by default the element is the state.
        results: ``results(*state)``; by default the state itself.
        commutative: whether the order of states does not matter.
        places: the type in which ``lift`` gets the position.

    Raises:
        ValueError: a function gives another number of scalars than the state has.
    """
    states = tuple(states)
    lifted = _traced(lift or (lambda element, position: element), (states[0], places))
    combined = _traced(combine, states * 2)
    if not len(states) == len(identity) == len(lifted) == len(combined):
        raise ValueError(
            f"monoid '{name}' has a state of {len(states)}, but its identity {len(identity)}, its lift {len(lifted)} and "
            f"its combination {len(combined)}"
        )
    return Monoid(
        name, states, tuple(identity), _typed(lifted, states), _typed(combined, states),
        _traced(results or (lambda *state: state), states), commutative,
    )  # fmt: skip


def _traced(function: Callable[..., Any], types: Sequence[dtype]) -> tuple[Expression, ...]:
    found = trace(function, types)
    return found if isinstance(found, tuple) else (found,)


def _typed(values: tuple[Expression, ...], states: tuple[dtype, ...]) -> tuple[Expression, ...]:
    return tuple(cast(value, kind) for value, kind in zip(values, states, strict=True))


def _lowest(of: dtype) -> Number:
    return -math.inf if of.category == 2 else of.minimum


def _highest(of: dtype) -> Number:
    return math.inf if of.category == 2 else of.maximum


def _any(of: dtype) -> Monoid:
    return define("any", (bool_,), (False,), bitwise_or)


def _all(of: dtype) -> Monoid:
    return define("all", (bool_,), (True,), bitwise_and)


def _sum(of: dtype) -> Monoid:
    return _any(of) if of is bool_ else define("sum", (of,), (0,), lambda a, b: a + b)


def _product(of: dtype) -> Monoid:
    return _all(of) if of is bool_ else define("product", (of,), (1,), lambda a, b: a * b)


def _maximum(of: dtype) -> Monoid:
    return _any(of) if of is bool_ else define("maximum", (of,), (_lowest(of),), maximum)


def _minimum(of: dtype) -> Monoid:
    return _all(of) if of is bool_ else define("minimum", (of,), (_highest(of),), minimum)


def _xor(of: dtype) -> Monoid:
    return define("xor", (of,), (0,), bitwise_xor)


def extremum_with_place(name: str, of: dtype, places: dtype = int64) -> Monoid:
    """Return ``argmaximum``, ``argminimum``, ``running_maximum`` or ``running_minimum`` with positions of a type.

    The state is the extremum and where it stands. NaN is the extremum. Of equals the ``arg`` ones take the first in place,
    the ``running`` ones the later in order.
    """
    greatest, first = name.endswith("maximum"), name.startswith("arg")

    def combine(value: Any, place: Any, other: Any, other_place: Any) -> Any:
        better = less(value, other) if greatest else less(other, value)
        same = equal(value, other)
        if of.category == 2:
            better = better & ~is_nan(value) | is_nan(other) & ~is_nan(value)
            same = same | is_nan(value) & is_nan(other)
        wins = better | (same & less(other_place, place) if first else same)
        takes = less(NOWHERE, other_place) & (less(place, 0) | wins)
        return where(takes, other, value), where(takes, other_place, place)

    start = _lowest(of) if greatest else _highest(of)
    return define(
        name, (of, places), (start, NOWHERE), combine, lambda element, place: (element, place),
        (lambda _, place: maximum(place, 0)) if first else None, first, places,
    )  # fmt: skip


def _exponential_sum(name: str, of: dtype, results: Callable[..., Any]) -> Monoid:
    """The maximum and the sum of exponentials relative to it: a softmax's denominator in one pass.

    M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018).
    """

    def combine(top: Any, total: Any, other_top: Any, other_total: Any) -> Any:
        both = maximum(top, other_top)

        def scaled(own_top: Any, own_total: Any) -> Any:
            # Infinite maxima have no difference.
            return where(equal(own_top, both), own_total, own_total * exp(own_top - both))

        return both, scaled(top, total) + scaled(other_top, other_total)

    return define(name, (of, of), (-math.inf, 0.0), combine, lambda x, _: (x, cast(1.0, of)), results)


def _moments(of: dtype) -> Monoid:
    """Count, mean and sum of squared deviations, combined as by Chan, Golub and LeVeque (1979); results in reverse order."""

    def combine(count: Any, mean: Any, squares: Any, other_count: Any, other_mean: Any, other_squares: Any) -> Any:
        both = count + other_count
        share = other_count / maximum(both, 1.0)
        difference = other_mean - mean
        return both, mean + difference * share, squares + other_squares + difference * difference * count * share

    def lift(element: Any, _: Any) -> Any:
        return cast(1.0, of), element, cast(0.0, of)

    return define("moments", (of, of, of), (0.0, 0.0, 0.0), combine, lift, lambda *state: state[::-1])


#: The monoids whose states are an element and its place.
EXTREMA_WITH_PLACES = ("argmaximum", "argminimum", "running_maximum", "running_minimum")

#: Each monoid by name, as a function of the type it combines.
MONOIDS: dict[str, Callable[[dtype], Monoid]] = {
    "sum": _sum,
    "product": _product,
    "maximum": _maximum,
    "minimum": _minimum,
    "any": _any,
    "all": _all,
    "xor": _xor,
    **{name: partial(extremum_with_place, name) for name in EXTREMA_WITH_PLACES},
    "log_sum_exp": lambda of: _exponential_sum("log_sum_exp", of, lambda top, total: top + log(total)),
    "moments": _moments,
}


@lru_cache(maxsize=1024)
def monoid(name: str, of: dtype) -> Monoid:
    """Return the monoid of :data:`MONOIDS` that combines values of a type (of bool: sums are ``any``, products ``all``).

    Raises:
        ValueError: there is none of this name.
    """
    if name not in MONOIDS:
        raise ValueError(f"there is no monoid '{name}'; there are {', '.join(MONOIDS)}")
    return MONOIDS[name](of)


@lru_cache(maxsize=1024)
def standard_name(found: Monoid) -> str | None:
    """Return the name in :data:`MONOIDS` under which a monoid stands, None for one that was defined elsewhere."""
    if found.name not in MONOIDS:
        return None
    return found.name if monoid(found.name, found.states[0]) == found else None
