"""The constants of Fourier transforms: tensors made once for a device, computed in double precision."""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict

from ...ir.dtypes import float32, float64
from ...record.devices import device, engine_for
from ...tensors.tensor import Tensor
from ..creation.factories import from_bytes

#: how many constant tensors are kept, and how many floats in all of them
CACHED, CACHED_FLOATS = 256, 1 << 24

_constants: OrderedDict[tuple[object, ...], Tensor] = OrderedDict()


def circle(count: int, sign: int) -> tuple[list[float], list[float]]:
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
    cosines, sines = circle(count, sign)
    rows: list[float] = []
    for j in range(count):
        places = [j * k % count for k in range(count)]
        rows.extend(each for place in places for each in (cosines[place], sines[place]))
        rows.extend(each for place in places for each in (-sines[place], cosines[place]))
    return (2 * count, 2 * count), rows


def _turns(first: int, second: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return ``exp(sign 2 pi i j k / n)`` for k below ``second`` and j below ``first``, n their product, as [second, first, 2]."""
    cosines, sines = circle(first * second, sign)
    places = [k * j for k in range(second) for j in range(first)]
    return (second, first, 2), [each for place in places for each in (cosines[place], sines[place])]


def _chirp(count: int, sign: int) -> tuple[tuple[int, ...], list[float]]:
    """Return ``exp(sign pi i k^2 / n)`` as [2, n]."""
    cosines, sines = circle(2 * count, sign)
    places = [k * k % (2 * count) for k in range(count)]
    return (2, count), [cosines[each] for each in places] + [sines[each] for each in places]


_MAKERS = {"matrix": _matrix, "turns": _turns, "chirp": _chirp}


def constant(kind: str, place: device, *arguments: int, wide: bool = False) -> Tensor:
    """Return a constant on a device, made once: a matrix, or turns of another shape; ``wide``: in float64."""
    # By its engine: what lived on a device that was lost is not on the one that was opened in its place.
    key = (kind, engine_for(place), arguments, wide)
    found = known(key)
    if found is None:
        shape, numbers = _MAKERS[kind](*arguments)
        found = keep(key, from_bytes(array("d" if wide else "f", numbers), shape, float64 if wide else float32, place))
    return found


def known(key: tuple[object, ...]) -> Tensor | None:
    """Return the tensor, of any shape, that is kept by a key, as that used last."""
    found = _constants.get(key)
    if found is not None:
        _constants.move_to_end(key)
    return found


def keep(key: tuple[object, ...], made: Tensor) -> Tensor:
    """Keep a tensor of any shape by a key, instead of those that were not used for the longest time where there are too many; return it."""
    _constants[key] = made
    while len(_constants) > 1 and (
        len(_constants) > CACHED or sum(each.numel() for each in _constants.values()) > CACHED_FLOATS
    ):
        _constants.popitem(last=False)
    return made
