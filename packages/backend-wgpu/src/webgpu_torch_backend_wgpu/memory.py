"""GPU buffers from a pool: the same program gets the same buffers again, so bind groups are reused."""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush

from webgpu_torch_core.backend.collection import Growth
from webgpu_torch_core.backend.interface import OutOfMemoryError

from .gpu.interface import Gpu, GpuError

#: parts of a tensor: each takes one of a kernel's bindings
MOST_PARTS = 64
#: requested sizes whose classes are remembered
SIZES = 1 << 14
#: free bytes the pool may hold before a new allocation gives them back, where the program itself uses less
FREE_BYTES = 1 << 29
#: seconds before each time that memory is asked for again
_PAUSES = (0.0, 0.01, 0.1, 0.5, 1.0)

#: what is read: a buffer's handle, an offset, and where the bytes go
Part = tuple[int, int, memoryview]


def size_class(nbytes: int, limit: int = 1 << 62) -> int:
    """Return the size a request is rounded up to: a power of two, above 1 MiB within an eighth."""
    if nbytes <= 256:
        return 256
    power = (nbytes - 1).bit_length()
    step = 1 << power if nbytes <= 1 << 20 else 1 << (power - 4)
    rounded = -(-nbytes // step) * step
    return rounded if nbytes > limit else min(rounded, limit)


class Buffer:
    """A GPU buffer in use; it returns to its pool with the last reference.

    Attributes:
        handle: the runtime's buffer: equal handles are the same memory.
        key: what identifies the memory.
        nbytes: its whole size; requested is what was asked for.
    """

    __slots__ = ("_returned", "handle", "key", "nbytes", "requested")

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return (handle, offset, bytes) of the runtime's buffers that hold a range of bytes, in order."""
        return [(self.handle, start, stop - start)]

    def part(self, number: int, nbytes: int) -> tuple[int, int]:
        """Return handle and offset of the ``number``-th of the parts of ``nbytes`` in which kernels bind the buffer."""
        return self.handle, number * nbytes

    def __init__(self, returned: deque[tuple[int, int]], handle: int, nbytes: int, requested: int) -> None:
        self._returned = returned
        self.handle = self.key = handle
        self.nbytes = nbytes
        self.requested = requested

    def __del__(self) -> None:
        # Appending to a deque is atomic: this may run in any thread, inside the pool's own methods, and at exit.
        self._returned.append((self.nbytes, self.handle))


class LongBuffer:
    """A buffer longer than the adapter makes one: a row of buffers, each a part that kernels bind."""

    __slots__ = ("key", "nbytes", "parts", "requested", "step")

    def __init__(self, parts: list[Buffer], step: int, requested: int) -> None:
        self.parts = parts
        self.step = step
        self.nbytes = sum(each.nbytes for each in parts)
        self.requested = requested
        self.key = tuple([each.handle for each in parts])

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return (handle, offset, bytes) of the runtime's buffers that hold a range of bytes, in order."""
        found = []
        for number, part in enumerate(self.parts):
            begin, end = max(start - number * self.step, 0), min(stop - number * self.step, self.step)
            if begin < end:
                found.append((part.handle, begin, end - begin))
        return found

    def part(self, number: int, nbytes: int) -> tuple[int, int]:
        """Return handle and offset of the ``number``-th of the parts of ``nbytes`` in which kernels bind the buffer."""
        assert nbytes == self.step
        return self.parts[number].handle, 0


def parts_into(buffer: Buffer | LongBuffer, result: bytearray) -> list[Part]:
    """Return the runtime's buffers that hold a buffer's first bytes, and where each goes in host memory."""
    into, found = memoryview(result), []
    for handle, offset, count in buffer.pieces(0, len(result)):
        found.append((handle, offset, into[:count]))
        into = into[count:]
    return found


class Pool:
    """Buffers by size class; the oldest free one is taken, so that the same buffers in use lead to the same choice."""

    def __init__(self, gpu: Gpu, part: int) -> None:
        self.gpu = gpu
        #: bytes of the buffers that a longer one is made of
        self.part = part
        self.limit = gpu.limits.max_buffer_size & ~31
        self.generation = 0
        #: whether buffers were destroyed since memory was asked for in vain
        self._freeing = False
        #: most bytes in use, and of all buffers
        self.peak = self.peak_reserved = 0
        # Free handles by size, smallest first: the runtime counts them up, so that is the oldest.
        self._free: dict[int, list[int]] = {}
        self._returned: deque[tuple[int, int]] = deque()
        self._allocated = 0
        self._reserved = 0
        self._classes: dict[int, int] = {}
        self._live = 0
        self._growth = Growth()
        self._lock = threading.RLock()

    @property
    def allocated(self) -> int:
        """Bytes in buffers that are in use."""
        with self._lock:
            self._collect()
            return self._allocated

    @property
    def live(self) -> int:
        """How many buffers are in use."""
        with self._lock:
            self._collect()
            return self._live

    def reset_peaks(self) -> None:
        """Count the most bytes anew."""
        with self._lock:
            self._collect()
            self.peak, self.peak_reserved = self._allocated, self._reserved

    @property
    def reserved(self) -> int:
        """Bytes of all buffers, free ones included."""
        return self._reserved

    def take(self, nbytes: int) -> Buffer | LongBuffer:
        """Return a buffer of at least ``nbytes``.

        Raises:
            OutOfMemoryError: the device has no room even after the pool is emptied.
        """
        return self.take_all((nbytes,))[0]

    def take_all(self, sizes: Iterable[int]) -> list[Buffer | LongBuffer]:
        """Return a buffer of at least so many bytes for each size.

        Raises:
            OutOfMemoryError: as for :meth:`take`.
        """
        made: list[Buffer | LongBuffer] = []
        returned, classes, limit = self._returned, self._classes, self.limit
        with self._lock:
            if returned:
                self._collect()
            for nbytes in sizes:
                rounded = classes.get(nbytes)
                if rounded is None:
                    rounded = self._class_of(nbytes)
                if (handles := self._free.get(rounded)) and rounded <= limit:
                    # As :meth:`_take`, without a call for each buffer of a plan.
                    handle = heappop(handles)
                    self._live += 1
                    self._allocated += rounded
                    made.append(Buffer(returned, handle, rounded, nbytes))
                else:
                    made.append(self._take(rounded, nbytes) if rounded <= limit else self._take_long(nbytes))
            if self._allocated > self.peak:
                self.peak = self._allocated
        return made

    def _class_of(self, nbytes: int) -> int:
        """Return the size that a request is rounded up to, and remember it."""
        if len(self._classes) >= SIZES:
            self._classes.clear()
        rounded = self._classes[nbytes] = size_class(nbytes, self.limit)
        return rounded

    def _take_long(self, nbytes: int) -> LongBuffer:
        """Return a buffer that is longer than the adapter makes one."""
        count, rest = divmod(nbytes, self.part)
        if count >= MOST_PARTS:
            raise OutOfMemoryError(
                f"WebGPU out of memory. Tried to allocate {nbytes} bytes; this adapter makes buffers of {self.limit} bytes "
                f"and a tensor has at most {MOST_PARTS} parts of {self.part}. Use smaller tensors or split them."
            )
        parts = [self._take(self.part, self.part) for _ in range(count)]
        if rest:
            parts.append(self._take(size_class(rest, self.part), rest))
        return LongBuffer(parts, self.part, nbytes)

    def _take(self, rounded: int, nbytes: int) -> Buffer:
        """Return a buffer of a size class; the pool is locked."""
        found = self._free.get(rounded)
        if not found and self._allocated + rounded >= self._growth.next:
            self._growth.collect(lambda: self.allocated + rounded)
            found = self._free.get(rounded)
        handle = heappop(found) if found else self._create(rounded, nbytes)
        self._live += 1
        self._allocated += rounded
        if self._allocated > self.peak:
            self.peak = self._allocated
        return Buffer(self._returned, handle, rounded, nbytes)

    def _collect(self) -> None:
        """Move the buffers given back since the last call to the free lists."""
        returned, free = self._returned, self._free
        while returned:
            nbytes, handle = returned.popleft()
            self._allocated -= nbytes
            self._live -= 1
            handles = free.get(nbytes)
            if handles is None:
                free[nbytes] = [handle]
            else:
                heappush(handles, handle)

    def _create(self, rounded: int, asked: int) -> int:
        if self._reserved - self._allocated > max(FREE_BYTES, 2 * self._allocated):
            self.empty()
        try:
            handle = self.gpu.buffer(rounded)
        except GpuError:
            # Tensors that only garbage refers to have memory, too.
            gc.collect()
            self.empty()
            handle = self._create_once_freed(rounded, asked)
        self._reserved += rounded
        self.peak_reserved = max(self.peak_reserved, self._reserved)
        return handle

    def _create_once_freed(self, rounded: int, asked: int) -> int:
        """Return a new buffer, once what was destroyed is free: drivers take their time where that is much."""
        refused: GpuError | None = None
        for pause in _PAUSES if self._freeing else (0.0,):
            time.sleep(pause)
            self.gpu.reclaim()
            try:
                handle = self.gpu.buffer(rounded)
            except GpuError as error:
                refused = error
            else:
                self._freeing = False
                return handle
        raise OutOfMemoryError(
            f"WebGPU out of memory. Tried to allocate {asked} bytes; {self._allocated} bytes are in use and "
            f"{self._reserved} bytes reserved on this device; the limit for one buffer is {self.limit}: {refused}"
        ) from refused

    def empty(self) -> None:
        """Destroy the buffers nobody uses."""
        with self._lock:
            self._collect()
            free, self._free = self._free, {}
            for size, entries in free.items():
                for handle in entries:
                    self.gpu.destroy(handle)
                    self._reserved -= size
            if free:
                self.generation += 1
                self._freeing = True
