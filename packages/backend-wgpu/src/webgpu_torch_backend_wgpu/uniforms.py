"""Uniform memory: blocks that hold numbers for good, each content once.

Plans that differ in some sizes have the same blocks where their numbers are the same, and with them the same bind groups: a loop
over a growing sequence has other plans for every length, of whose kernels most have the same sizes as before.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from weakref import WeakValueDictionary

from .gpu.interface import UNIFORM, Gpu
from .program import PARAMETER_ALIGNMENT

#: bytes of the buffers that blocks are parts of, unless others are asked for
CHUNK = 1 << 16


class Block:
    """A part of a uniform buffer: its handle, where the part begins, and how many bytes it has.

    ``owner``: what a buffer of its own lives by; ``returned``: what takes back a part of a chunk with the last reference to it.
    """

    __slots__ = ("__weakref__", "_owner", "_returned", "handle", "offset", "size")

    def __init__(
        self, handle: int, offset: int, size: int, owner: object = None, returned: deque[tuple[int, int]] | None = None
    ) -> None:
        self.handle, self.offset, self.size, self._owner, self._returned = handle, offset, size, owner, returned

    def bound(self) -> tuple[int, int, int]:
        """Return what a bind group binds."""
        return self.handle, self.offset, self.size

    def __del__(self) -> None:
        # Appending to a deque is atomic: this may run in any thread, and at exit.
        if self._returned is not None:
            self._returned.append((self.handle, self.offset))


class Uniforms:
    """The uniform memory of one device; ``chunk``: bytes of the buffers that most blocks are parts of."""

    def __init__(self, gpu: Gpu, chunk: int = CHUNK) -> None:
        self._gpu = gpu
        self._chunk = chunk
        self._known: WeakValueDictionary[bytes, Block] = WeakValueDictionary()
        self._free: deque[tuple[int, int]] = deque()
        self._chunks: list[object] = []

    def block(self, data: bytes) -> Block:
        """Return a block that holds these bytes, at least, and is never written again."""
        data = data.ljust(-(-len(data) // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT, b"\0")
        found = self._known.get(data)
        if found is None:
            found = self._known[data] = self.own(len(data)) if len(data) > PARAMETER_ALIGNMENT else self._part()
            self._gpu.write(found.handle, found.offset, data)
        return found

    @cached_property
    def nothing(self) -> Block:
        """The block of kernels without parameters that bind some, and of others until theirs are known."""
        return self.block(bytes(PARAMETER_ALIGNMENT))

    def own(self, nbytes: int) -> Block:
        """Return a block that is a buffer of its own."""
        owner = self._gpu.own(self._gpu.buffer(nbytes, UNIFORM))
        return Block(owner.handle, 0, nbytes, owner)

    def _part(self) -> Block:
        if not self._free:
            chunk = self.own(self._chunk)
            self._chunks.append(chunk)
            self._free.extend((chunk.handle, offset) for offset in range(0, self._chunk, PARAMETER_ALIGNMENT))
        return Block(*self._free.popleft(), PARAMETER_ALIGNMENT, returned=self._free)
