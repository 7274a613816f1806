"""One value per dimension from one for all, as ``torch.nn.modules.utils``."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a single value ``n`` times and leaves several as a tuple."""

    def parse(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, collections.abc.Iterable) else (value,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Return each value ``n`` times, the last dimension's first, as ``F.pad`` takes them."""
    return tuple(value for value in reversed(t) for _ in range(n))
