"""Results on their way to the host, which were sent along with the kernel that computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .memory import Buffer, LongBuffer

#: most bytes of a kernel's result that come before somebody asks for them
COMING_BYTES = 4096


class Coming:
    """The bytes that a buffer holds as long as nothing writes there.

    Args:
        buffer: whose they are.
        nbytes: how many.
        finish: what waits for them, once, and puts them in their place.
    """

    __slots__ = ("_data", "_finish", "_nbytes", "buffer")

    def __init__(
        self, buffer: Buffer | LongBuffer, nbytes: int, finish: Callable[[Sequence[memoryview]], None]
    ) -> None:
        self.buffer, self._nbytes, self._finish = buffer, nbytes, finish
        self._data: bytearray | None = None

    @property
    def is_here(self) -> bool:
        """Whether they have been waited for."""
        return self._data is not None

    def settle(self) -> bytearray:
        """Return the bytes, waiting for them the first time.

        Raises:
            GpuError: they could not be had.
        """
        data = self._data
        if data is None:
            data = bytearray(self._nbytes)
            self._finish((memoryview(data),))
            self._data = data
        return data

    def copy_to(self, result: bytearray) -> None:
        """Copy the first bytes to where somebody asked for them, waiting as :meth:`settle` does."""
        result[:] = self.settle()[: len(result)]
