"""What kernels find wrong with values: nothing raises on a device, so it is told with the next results that are read.

All checks of a thread for a device end in one number, that of the first one that failed, so that asking costs one small read
however many there were. A number holds which check failed and what it found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tape import Value

#: bits of what a check found
_BITS = 40
#: what a check can find at most, in both directions; more is reported as this
LARGEST = (1 << (_BITS - 1)) - 1

#: error of what was found, by the check's number
_errors: list[Callable[[int], Exception]] = []
_numbers: dict[object, int] = {}


class Looks(threading.local):
    """What the calls of a thread looked at of numbers that lay computed in the host's memory.

    Attributes:
        made: the values that were looked at since somebody asked, each with a function that looks at another value in its
            place: it raises what the call would raise, and returns False where that value cannot be. None while nobody asks.
        later: whether the values stand for others, which will be looked at in their place: they have no numbers.
    """

    def __init__(self) -> None:
        self.made: list[tuple[Value, Callable[[Value], bool]]] | None = None
        self.later = False

    @contextmanager
    def listen(self, later: bool = False) -> Generator[list[tuple[Value, Callable[[Value], bool]]]]:
        """Collect what is looked at in a region; who listens around it is told in the end, if nothing is raised."""
        outer, made = (self.made, self.later), []
        self.made, self.later = made, later or self.later
        try:
            yield made
        finally:
            self.made, self.later = outer
        if self.made is not None:
            self.made += made


looks = Looks()


def can_be_known(value: Value) -> bool:
    """Return whether the host can look at numbers where they are, outside of what is recorded to be replayed with others."""
    return value.engine.capture is None and hasattr(value.engine.device, "as_array")


def check_number(key: object, error: Callable[[int], Exception]) -> int:
    """Return the number of a check, from 1; ``key``: what it depends on, ``error`` makes the exception of what was found."""
    number = _numbers.get(key)
    if number is None:
        _errors.append(error)
        number = _numbers[key] = len(_errors)
    return number


def check_base(key: object, error: Callable[[int], Exception]) -> int:
    """Return the number that says a check (see :func:`check_number`) failed and found 0; what it found is added to that."""
    return (check_number(key, error) << _BITS) + LARGEST + 1


def error_of(failed: int) -> Exception:
    """Return the exception of a number that is not 0."""
    return error_of_check(failed >> _BITS, (failed & ((1 << _BITS) - 1)) - LARGEST - 1)


def error_of_check(number: int, found: int) -> Exception:
    """Return the exception of a check that found something."""
    return _errors[number - 1](found)
