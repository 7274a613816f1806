"""GPU buffers from a pool: the same program gets the same buffers again, so bind groups are reused."""

from __future__ import annotations

import threading
from collections import deque
from heapq import heappop, heappush

from .errors import OutOfMemoryError
from .gpu.interface import Gpu, GpuError

#: free bytes the pool may hold before a new allocation gives them back, where the program itself uses less
FREE_BYTES = 1 << 29


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
        nbytes: its whole size; requested is what was asked for.
    """

    __slots__ = ("_returned", "handle", "nbytes", "requested")

    def __init__(self, returned: deque[tuple[int, int]], handle: int, nbytes: int, requested: int) -> None:
        self._returned = returned
        self.handle = handle
        self.nbytes = nbytes
        self.requested = requested

    def __del__(self) -> None:
        # Appending to a deque is atomic: this may run in any thread, inside the pool's own methods, and at exit.
        self._returned.append((self.nbytes, self.handle))


class Pool:
    """Buffers by size class; the oldest free one is taken, so that the same buffers in use lead to the same choice."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.limit = gpu.limits.max_buffer_size & ~31
        self.generation = 0
        self.peak = 0
        # Free handles by size, smallest first: the runtime counts them up, so that is the oldest.
        self._free: dict[int, list[int]] = {}
        self._returned: deque[tuple[int, int]] = deque()
        self._allocated = 0
        self._reserved = 0
        self._live = 0
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

    @property
    def reserved(self) -> int:
        """Bytes of all buffers, free ones included."""
        return self._reserved

    def take(self, nbytes: int) -> Buffer:
        """Return a buffer of at least ``nbytes``.

        Raises:
            OutOfMemoryError: it is over the adapter's limit, or the device has no room even after the pool is emptied.
        """
        rounded = size_class(nbytes, self.limit)
        if rounded > self.limit:
            raise OutOfMemoryError(
                f"WebGPU out of memory. Tried to allocate {nbytes} bytes in one buffer; this adapter's limit for one "
                f"buffer is {self.limit} bytes. Use smaller tensors or split them."
            )
        with self._lock:
            if self._returned:
                self._collect()
            found = self._free.get(rounded)
            handle = heappop(found) if found else self._create(rounded, nbytes)
            self._allocated += rounded
            self.peak = max(self.peak, self._allocated)
            self._live += 1
        return Buffer(self._returned, handle, rounded, nbytes)

    def _collect(self) -> None:
        """Move the buffers given back since the last call to the free lists."""
        returned = self._returned
        while returned:
            nbytes, handle = returned.popleft()
            self._allocated -= nbytes
            self._live -= 1
            heappush(self._free.setdefault(nbytes, []), handle)

    def _create(self, rounded: int, asked: int) -> int:
        if self._reserved - self._allocated > max(FREE_BYTES, 2 * self._allocated):
            self.empty()
        try:
            handle = self.gpu.buffer(rounded)
        except GpuError:
            # Destroyed buffers are only freed once the work that used them has finished.
            self.empty()
            self.gpu.wait()
            try:
                handle = self.gpu.buffer(rounded)
            except GpuError as error:
                raise OutOfMemoryError(
                    f"WebGPU out of memory. Tried to allocate {asked} bytes; {self._allocated} bytes are in use and "
                    f"{self._reserved} bytes reserved on this device; the limit for one buffer is {self.limit}: {error}"
                ) from error
        self._reserved += rounded
        return handle

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
