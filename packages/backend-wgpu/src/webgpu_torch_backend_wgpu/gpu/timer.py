"""GPU time of recorded commands, by the C functions of ``webgpu.h``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .staging import Staging

if TYPE_CHECKING:
    from .header import HeaderGpu

_TIMESTAMPS, _QUERY_RESOLVE_AND_COPY_SOURCE = 2, 0x200 | 0x4


class Timer:
    """GPU time of one compute pass, by timestamp queries."""

    def __init__(self, gpu: HeaderGpu) -> None:
        ffi, lib = gpu.ffi, gpu.lib
        self.gpu = gpu
        descriptor = ffi.new("WGPUQuerySetDescriptor *", {"type": _TIMESTAMPS, "count": 2})
        self._queries = ffi.gc(lib.wgpuDeviceCreateQuerySet(gpu.device, descriptor), lib.wgpuQuerySetRelease)
        self._resolved = ffi.gc(gpu.native_buffer(256, _QUERY_RESOLVE_AND_COPY_SOURCE), lib.wgpuBufferRelease)
        self._staging = Staging(gpu, 256)
        self._writes = ffi.new("WGPUPassTimestampWrites *", {"querySet": self._queries, "endOfPassWriteIndex": 1})

    def seconds(self, recorded: object) -> float:
        """Run one compute pass, wait for it and return how long it took."""
        gpu = self.gpu
        gpu._pass_descriptor.timestampWrites = self._writes
        encoder = gpu._encode(recorded)
        gpu._pass_descriptor.timestampWrites = gpu.ffi.NULL
        gpu.lib.wgpuCommandEncoderResolveQuerySet(encoder, self._queries, 0, 2, self._resolved, 0)
        gpu._send(encoder)
        result = bytearray(16)
        self._staging.request([(self._resolved, 0, 16)])
        self._staging.receive([memoryview(result)])
        start, stop = memoryview(result).cast("Q")
        return max(stop - start, 0) * gpu._nanoseconds() * 1e-9
