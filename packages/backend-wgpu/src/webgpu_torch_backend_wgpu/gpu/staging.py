"""Buffers through which results come back to the host, by the C functions of ``webgpu.h``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .interface import GpuError

if TYPE_CHECKING:
    from .header import HeaderGpu

#: reads from this size on are copied by several threads
PARALLEL_COPY_BYTES = 1 << 23
_COPIERS = min(8, (os.cpu_count() or 1) // 2)
_MAP_READ_AND_COPY_TARGET, _SUCCESS = 0x1 | 0x8, 1


_Buffer = TypeVar("_Buffer")


def copies_to(
    target: _Buffer, parts: Iterable[tuple[_Buffer, int, int]]
) -> tuple[list[tuple[_Buffer, int, _Buffer, int, int]], int]:
    """Return what copies parts of buffers (buffer, offset, bytes) to a buffer one after another, in whole words, and all their bytes.

    A copy is: source, where it begins, target, where that begins, bytes.
    """
    copies = []
    at = 0
    for source, offset, nbytes in parts:
        rounded = (nbytes + 3) & ~3
        copies.append((source, offset, target, at, rounded))
        at += rounded
    return copies, at


def unread(gpu: HeaderGpu) -> GpuError:
    """Return why results could not be had, which was reported or is not known."""
    said = gpu.reports.take() or GpuError("internal", "the device could not give its results back")
    return GpuError("lost" if gpu.lost else said.kind, gpu.lost or str(said))


class Staging:
    """A mappable buffer through which results come back."""

    def __init__(self, gpu: HeaderGpu, nbytes: int) -> None:
        ffi = gpu.ffi
        self.gpu = gpu
        self.nbytes = nbytes
        self.native = ffi.gc(gpu.native_buffer(nbytes, _MAP_READ_AND_COPY_TARGET), gpu.lib.wgpuBufferRelease)
        #: what a library has the bytes by that brings them without the callback
        self.answer: object = None
        self._status: list[int] = []
        self._asked: Any = None
        self._moment: Any = None
        status = self._status

        def mapped(outcome: int, _message: Any, _first: Any, _second: Any) -> None:
            status.append(outcome)

        self._callback = gpu.reports.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", mapped)
        self._info = ffi.new("WGPUBufferMapCallbackInfo *", {"callback": self._callback})

    def request(self, parts: Sequence[tuple[Any, int, int]], before: object = None) -> None:
        """Start copying parts of buffers here, one after another: (buffer, offset, bytes); recorded commands run ``before``."""
        copies, nbytes = copies_to(self.native, parts)
        self.gpu._send(self.gpu._encode(before, copies))
        self._status.clear()
        self._asked = None
        if not self.gpu.reports.pending():
            self._moment = self.gpu.moment()
            self._asked = self.gpu._map(self.native, nbytes, self._info)

    def receive(self, parts: Sequence[memoryview]) -> None:
        """Wait for what was requested and copy it to host memory, to a place for each part.

        Raises:
            GpuError: the buffer could not be mapped.
        """
        gpu = self.gpu
        if not self._status and self._asked is not None:
            gpu._finish_map(self._asked, self._moment)
            gpu.reports.check()
        if not self._status or self._status[0] != _SUCCESS:
            raise unread(gpu)
        sizes = [(len(into) + 3) & ~3 for into in parts]
        pointer = gpu.ffi.cast("char *", gpu.lib.wgpuBufferGetConstMappedRange(self.native, 0, sum(sizes)))
        for into, size in zip(parts, sizes, strict=True):
            _copy_out(gpu.ffi, pointer, into)
            pointer += size
        gpu.lib.wgpuBufferUnmap(self.native)


def _copy_out(ffi: Any, pointer: Any, into: memoryview) -> None:
    """Copy mapped memory to the host; large copies by several threads, each touching its pages first."""
    nbytes = len(into)
    if nbytes < PARALLEL_COPY_BYTES or _COPIERS < 2:
        ffi.memmove(into, pointer, nbytes)
        return
    import ctypes
    from concurrent.futures import ThreadPoolExecutor

    source, target = (int(ffi.cast("uintptr_t", each)) for each in (pointer, ffi.from_buffer(into)))
    part = -(-nbytes // _COPIERS)

    def copy(start: int) -> None:
        ctypes.memmove(target + start, source + start, min(part, nbytes - start))

    with ThreadPoolExecutor(_COPIERS) as pool:
        list(pool.map(copy, range(0, nbytes, part)))
