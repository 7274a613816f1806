"""The calls into wgpu-native that must be quick or that wgpu-py does not wrap."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import wgpu
from wgpu.backends import wgpu_native

_api: Any = wgpu_native._api
ffi: Any = wgpu_native.ffi
lib: Any = wgpu_native.lib
NULL = ffi.NULL
GPUError = wgpu.GPUError
error_handler = _api.error_handler

#: submits the GPU may be behind before recording waits for it: bounds the memory that unfinished work holds
SUBMITS_IN_FLIGHT = 64
_POLL_EVERY = 16
#: reads from this size on are copied by several threads
PARALLEL_COPY_BYTES = 1 << 23
_COPIERS = min(8, (os.cpu_count() or 1) // 2)


def watched(action: Callable[[], Any]) -> tuple[Any, tuple[str, str] | None]:
    """Call ``action`` and return its result with the (kind, message) of the last error wgpu reported during it."""
    error_handler.capture("webgpu-torch")
    try:
        result = action()
    except (RuntimeError, GPUError) as raised:
        # What wgpu said explains more than what followed from it.
        error = error_handler.release("webgpu-torch")
        if error is None:
            if not isinstance(raised, GPUError):
                raise
            error = type(raised).__name__, str(raised)
        return None, error
    except BaseException:
        error_handler.release("webgpu-torch")
        raise
    return result, error_handler.release("webgpu-torch")


def refused() -> bool:
    """Return whether wgpu reported an error since the innermost watch began."""
    stack = error_handler._get_proxy_stack()
    return bool(stack) and stack[-1].message is not None


def address(handle: Any) -> int:
    """Return a native handle as a number."""
    return int(ffi.cast("uintptr_t", handle))


def _string_view(view: Any, text: str) -> Any:
    """Point a WGPUStringView at a string; returns the memory to keep alive."""
    data = text.encode()
    memory = ffi.new("char[]", data)
    view.data = memory
    view.length = len(data)
    return memory


def create_shader_module(device: Any, source: str, label: str, trusted: bool) -> Any:
    """Return a shader module; a trusted one has no bounds checks and no loop guards (its code must not need them)."""
    if not trusted:
        return device.create_shader_module(label=label, code=source)
    chain = ffi.new("WGPUShaderSourceWGSL *")
    chain.chain.sType = lib.WGPUSType_ShaderSourceWGSL
    descriptor = ffi.new("WGPUShaderModuleDescriptor *")
    descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", chain)
    alive = _string_view(chain.code, source), _string_view(descriptor.label, label)
    identity = _api.libf.wgpuDeviceCreateShaderModuleTrusted(device._internal, descriptor, 0)
    del alive
    return _api.GPUShaderModule(label, identity, device)


def create_bind_group(device: Any, layout: Any, entries: Sequence[tuple[Any, int, int]]) -> Any:
    """Return a raw bind group over (buffer, offset, size) entries, bound in order."""
    array = ffi.new("WGPUBindGroupEntry[]", len(entries))
    for number, (buffer, offset, size) in enumerate(entries):
        entry = array[number]
        entry.binding = number
        entry.buffer = buffer
        entry.offset = offset
        entry.size = size
    descriptor = ffi.new("WGPUBindGroupDescriptor *")
    descriptor.layout = layout
    descriptor.entryCount = len(entries)
    descriptor.entries = array
    return ffi.gc(lib.wgpuDeviceCreateBindGroup(device, descriptor), lib.wgpuBindGroupRelease)


class Recorder:
    """Records dispatches and copies into one command buffer at a time and submits them."""

    def __init__(self, device: Any) -> None:
        self.device = device._internal
        self.queue = device.queue._internal
        self.encoder: Any = None
        self.submits = 0
        self._encoder_descriptor = ffi.new("WGPUCommandEncoderDescriptor *")
        self._pass_descriptor = ffi.new("WGPUComputePassDescriptor *")
        self._buffer_descriptor = ffi.new("WGPUCommandBufferDescriptor *")
        self._commands = ffi.new("WGPUCommandBuffer[1]")
        self._index = ffi.new("WGPUSubmissionIndex *")
        self._in_flight: deque[int] = deque()

    def begin(self) -> None:
        """Open a command encoder."""
        self.encoder = lib.wgpuDeviceCreateCommandEncoder(self.device, self._encoder_descriptor)

    def dispatch(self, entries: Sequence[tuple[Any, Any, int, int, int]], timestamps: Any = NULL) -> None:
        """Record (pipeline, bind group, workgroups) entries as one compute pass; a None pipeline keeps the last one."""
        self._pass_descriptor.timestampWrites = timestamps
        encoder = lib.wgpuCommandEncoderBeginComputePass(self.encoder, self._pass_descriptor)
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_group = lib.wgpuComputePassEncoderSetBindGroup
        run = lib.wgpuComputePassEncoderDispatchWorkgroups
        null = NULL
        for pipeline, group, x, y, z in entries:
            if pipeline is not None:
                set_pipeline(encoder, pipeline)
            set_group(encoder, 0, group, 0, null)
            run(encoder, x, y, z)
        lib.wgpuComputePassEncoderEnd(encoder)
        lib.wgpuComputePassEncoderRelease(encoder)

    def copy(self, source: Any, target: Any, nbytes: int, source_offset: int = 0) -> None:
        """Record a copy of whole words to the start of ``target``."""
        lib.wgpuCommandEncoderCopyBufferToBuffer(self.encoder, source, source_offset, target, 0, nbytes)

    def discard(self) -> None:
        """Finish the encoder, which validates it, without running it."""
        lib.wgpuCommandBufferRelease(lib.wgpuCommandEncoderFinish(self.encoder, self._buffer_descriptor))
        lib.wgpuCommandEncoderRelease(self.encoder)

    def submit(self) -> None:
        """Finish the encoder and submit it; waits where the GPU is too far behind.

        A recording that wgpu refuses is dropped: submitting it would end the process. Call this inside :func:`watched`.
        """
        commands = self._commands
        commands[0] = lib.wgpuCommandEncoderFinish(self.encoder, self._buffer_descriptor)
        if refused():
            lib.wgpuCommandBufferRelease(commands[0])
            lib.wgpuCommandEncoderRelease(self.encoder)
            return
        self._in_flight.append(lib.wgpuQueueSubmitForIndex(self.queue, 1, commands))
        lib.wgpuCommandBufferRelease(commands[0])
        lib.wgpuCommandEncoderRelease(self.encoder)
        self.submits += 1
        if len(self._in_flight) > SUBMITS_IN_FLIGHT:
            self._index[0] = self._in_flight[SUBMITS_IN_FLIGHT // 2]
            lib.wgpuDevicePoll(self.device, True, self._index)
            for _ in range(SUBMITS_IN_FLIGHT // 2 + 1):
                self._in_flight.popleft()
        elif self.submits % _POLL_EVERY == 0:
            lib.wgpuDevicePoll(self.device, False, NULL)

    def write(self, buffer: Any, offset: int, data: Any) -> None:
        """Write host bytes (a multiple of four) into a buffer, ordered with submits."""
        source = ffi.from_buffer(data)
        lib.wgpuQueueWriteBuffer(self.queue, buffer, offset, source, len(source))

    def flush(self, wait: bool) -> None:
        """Send pending writes to the GPU; optionally wait for everything."""
        lib.wgpuQueueSubmit(self.queue, 0, NULL)
        self.poll(wait)

    def poll(self, wait: bool) -> None:
        """Let finished work be noticed; wait for all of it if asked."""
        lib.wgpuDevicePoll(self.device, wait, NULL)
        if wait:
            self._in_flight.clear()


class Staging:
    """A mappable buffer through which results come back."""

    def __init__(self, device: Any, nbytes: int) -> None:
        import wgpu

        usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        self.keep = device.create_buffer(size=nbytes, usage=usage)
        self.handle = self.keep._internal
        self.nbytes = nbytes
        self._status: list[int] = []

        @ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)")
        def mapped(status: int, _message: Any, _first: Any, _second: Any) -> None:
            self._status.append(status)

        self._info = ffi.new("WGPUBufferMapCallbackInfo *")
        self._info.mode = lib.WGPUCallbackMode_AllowProcessEvents
        self._info.callback = self._callback = mapped

    def request(self, recorder: Recorder, source: Any, offset: int, nbytes: int) -> None:
        """Start copying bytes of a buffer here."""
        rounded = (nbytes + 3) & ~3
        recorder.begin()
        recorder.copy(source, self.handle, rounded, offset)
        recorder.submit()
        self._status.clear()
        if refused():
            return
        lib.wgpuBufferMapAsync(self.handle, lib.WGPUMapMode_Read, 0, rounded, self._info[0])

    def receive(self, recorder: Recorder, into: memoryview) -> None:
        """Wait for what was requested and copy it to host memory.

        Raises:
            RuntimeError: the buffer could not be mapped.
        """
        if not self._status and not refused():
            recorder.poll(True)
        if not self._status or self._status[0] != lib.WGPUMapAsyncStatus_Success:
            raise RuntimeError("the device could not give its results back (it may be lost or out of memory)")
        pointer = lib.wgpuBufferGetConstMappedRange(self.handle, 0, (len(into) + 3) & ~3)
        _copy_out(pointer, into)
        lib.wgpuBufferUnmap(self.handle)


def _copy_out(pointer: Any, into: memoryview) -> None:
    """Copy mapped memory to the host; large copies by several threads, each touching its pages first."""
    nbytes = len(into)
    if nbytes < PARALLEL_COPY_BYTES or _COPIERS < 2:
        ffi.memmove(into, pointer, nbytes)
        return
    import ctypes
    from concurrent.futures import ThreadPoolExecutor

    source, target = address(pointer), address(ffi.from_buffer(into))
    part = -(-nbytes // _COPIERS)

    def copy(start: int) -> None:
        ctypes.memmove(target + start, source + start, min(part, nbytes - start))

    with ThreadPoolExecutor(_COPIERS) as pool:
        list(pool.map(copy, range(0, nbytes, part)))


class Timer:
    """GPU time of one compute pass, by timestamp queries."""

    def __init__(self, device: Any) -> None:
        import wgpu

        usage = wgpu.BufferUsage
        self._queries = device.create_query_set(type="timestamp", count=2)
        self._resolved = device.create_buffer(size=256, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        self._staging = Staging(device, 256)
        self._period = lib.wgpuQueueGetTimestampPeriod(device.queue._internal)
        self.writes = ffi.new("WGPUPassTimestampWrites *")
        self.writes.querySet = self._queries._internal
        self.writes.beginningOfPassWriteIndex = 0
        self.writes.endOfPassWriteIndex = 1

    def resolve(self, recorder: Recorder) -> None:
        """Record the reading of both timestamps."""
        lib.wgpuCommandEncoderResolveQuerySet(
            recorder.encoder, self._queries._internal, 0, 2, self._resolved._internal, 0
        )

    def seconds(self, recorder: Recorder) -> float:
        """Wait for the timed pass and return how long it took."""
        result = bytearray(16)
        self._staging.request(recorder, self._resolved._internal, 0, 16)
        self._staging.receive(recorder, memoryview(result))
        start, stop = memoryview(result).cast("Q")
        return max(stop - start, 0) * self._period * 1e-9
