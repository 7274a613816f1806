"""When the interpreter looks for garbage: not in the middle of work whose objects stay, and before memory grows.

It counts objects. A step of training makes some thousands that die when it ends, of which collecting in between frees none: those
that it met become old, and looking through all old objects for each few tens of steps takes a tenth of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

#: new objects after which garbage is collected: more than live at once in a step, where interpreters begin with 700 or 2000
NEW_OBJECTS, _USUAL = 20_000, (700, 2000)
#: bytes in use below which none is collected because of these
LEAST_BYTES = 1 << 27


def collect_seldom() -> None:
    """Let so many objects be new before garbage is collected, unless somebody has decided how many."""
    first, *others = gc.get_threshold()
    if first in _USUAL:
        gc.set_threshold(NEW_OBJECTS, *others)


class Growth:
    """Has garbage collected before the memory that a device's tensors have in use is twice as large as after the last time.

    Tensors in cycles of references die with these, and few objects may hold much memory.
    """

    __slots__ = ("next",)

    def __init__(self) -> None:
        #: bytes in use from which on it is time
        self.next = LEAST_BYTES

    def collect(self, used: Callable[[], int]) -> None:
        """Collect what became garbage lately; ``used`` tells what is in use then."""
        if gc.isenabled():
            gc.collect(1)
            self.next = max(2 * used(), LEAST_BYTES)


def without_collection(action: Callable[[], Result]) -> Result:
    """Return what a function returns; garbage is collected after it, in all threads.

    Whatever interrupts it, nothing can come between an end of ``action`` and collecting being on again. Where it is off already,
    somebody else turns it on.
    """
    if not gc.isenabled():
        return action()
    try:
        gc.disable()
        return action()
    finally:
        gc.enable()
