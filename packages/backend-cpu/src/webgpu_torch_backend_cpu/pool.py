"""Memory that is kept for what needs as much of it next, and begins where a line of the cache does."""

from __future__ import annotations

from collections import OrderedDict
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

#: bytes of a line of the cache: NumPy's vectors are as long at most, and two lines are moved for each that lies across them
LINE = 64


class Memory(np.ndarray):
    """Bytes that were allocated here: whoever finds out that nobody else refers to them may keep them for the next."""


def aligned(nbytes: int, owner: type[np.ndarray] = Memory) -> np.ndarray:
    """Return an array of ``nbytes`` uninitialised bytes, a view of memory that it alone has; only that of :class:`Memory` is kept."""
    memory = owner((nbytes + LINE,), np.uint8)
    start = -memory.ctypes.data % LINE
    return np.ndarray((nbytes,), np.uint8, memory, start)


def whole_of(view: object) -> np.ndarray | None:
    """Return the array that :func:`aligned` returned of which something is a view; None of other memory."""
    while type(view) is np.ndarray:
        if type(view.base) is Memory:
            return view
        view = view.base
    return None


def empty(shape: tuple[int, ...], kind: DTypeLike) -> np.ndarray:
    """Return an array of elements that are not set, in memory as that of :func:`aligned`."""
    found = np.dtype(kind)
    return aligned(prod(shape) * found.itemsize).view(found).reshape(shape)


#: memory for the registers of kernels, most of which run one at a time
_registers: list[np.ndarray] = []
_MOST_KEPT, _LARGEST_KEPT = 4, 1 << 25


def take_registers(nbytes: int) -> np.ndarray:
    """Return memory of at least so many bytes for what a kernel computes on its way; nobody else has it until it is given back."""
    try:
        # One atomic step takes it: threads and the garbage collector may be here too.
        memory = _registers.pop()
    except IndexError:
        return aligned(nbytes)
    return memory if memory.nbytes >= nbytes else aligned(nbytes)


def give_registers(memory: np.ndarray) -> None:
    """Keep memory for the next kernel."""
    if len(_registers) < _MOST_KEPT and memory.nbytes <= _LARGEST_KEPT:
        _registers.append(memory)


class Pool:
    """Arrays kept for the next allocation of their size: mapping fresh pages costs more than most kernels."""

    #: smaller arrays are left to the allocator, which does not unmap them, and computing with them takes less time than calls do
    SMALLEST = 1 << 14
    #: bytes kept at most; beyond it the sizes unused for longest go first
    LIMIT = 1 << 28

    def __init__(self) -> None:
        self.nbytes = 0
        self._free: OrderedDict[int, list[np.ndarray]] = OrderedDict()

    def take(self, nbytes: int) -> np.ndarray:
        """Return an array of ``nbytes`` uninitialised bytes."""
        if nbytes < self.SMALLEST:
            return np.empty(nbytes, np.uint8)
        try:
            # One atomic step takes the array: threads and the garbage collector may be here too.
            array = self._free[nbytes].pop()
            self._free.move_to_end(nbytes)
        except (KeyError, IndexError):
            return aligned(nbytes)
        self.nbytes -= nbytes
        return array

    def give(self, array: np.ndarray) -> None:
        """Keep an array that nobody refers to any more."""
        nbytes = array.nbytes
        if nbytes < self.SMALLEST or nbytes > self.LIMIT:
            return
        self._free.setdefault(nbytes, []).append(array)
        self.nbytes += nbytes
        while self.nbytes > self.LIMIT and self._free:
            size, arrays = self._free.popitem(last=False)
            self.nbytes -= size * len(arrays)

    def clear(self) -> None:
        """Free everything kept."""
        self._free.clear()
        self.nbytes = 0
