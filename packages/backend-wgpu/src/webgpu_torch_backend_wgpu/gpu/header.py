"""WebGPU through the C functions of ``webgpu.h`` and cffi: what the libraries that export them have in common."""

from __future__ import annotations

import itertools
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .awake import Awake
from .interface import (
    DISPATCH,
    STORAGE,
    UNIFORM,
    WORDS,
    Adapter,
    Gpu,
    GpuError,
    Limits,
    MatrixUnit,
    PipelineRequest,
    camel,
)
from .reports import Reports, text_of
from .staging import Staging
from .timer import Timer

if TYPE_CHECKING:
    from concurrent.futures import Future

#: the largest mappable buffer for reading; larger reads go through two of them in turn
STAGING_BYTES = 1 << 26
#: host bytes handed to the queue before it is told to send them on: bounds the staging memory of large writes
WRITE_CHUNK = 1 << 26
#: pipelines compiled at the same time
COMPILERS = min(16, os.cpu_count() or 1)
_USAGES = {STORAGE: 0x80 | 0x4 | 0x8, UNIFORM: 0x40 | 0x8}
_BINDINGS = {"uniform": 2, "storage": 3, "read-only-storage": 4}
_COMPUTE_STAGE = 4
_WGSL_SOURCE = 2
_ADAPTER_KINDS = {1: "discrete", 2: "integrated", 3: "cpu"}
_APIS = {4: "D3D12", 5: "Metal", 6: "Vulkan", 7: "OpenGL", 8: "OpenGLES"}


def limits_of(limits: Any) -> Limits:
    """Return the limits of a WGPULimits that matter here."""
    return Limits(*[int(getattr(limits, camel(name))) for name in Limits.fields])


def adapter_of(
    ffi: Any, lib: Any, handle: int, adapter: Any, features: frozenset[str], matrix_units: tuple[MatrixUnit, ...] = ()
) -> Adapter:
    """Return what an implementation tells of an adapter."""
    info, limits = ffi.new("WGPUAdapterInfo *"), ffi.new("WGPULimits *")
    lib.wgpuAdapterGetInfo(adapter, info)
    lib.wgpuAdapterGetLimits(adapter, limits)
    vendor, device, description = (text_of(ffi, each) for each in (info.vendor, info.device, info.description))
    api, kind = _APIS.get(info.backendType, "unknown"), _ADAPTER_KINDS.get(info.adapterType, "unknown")
    vendor_id, device_id = int(info.vendorID), int(info.deviceID)
    threads = int(info.subgroupMaxSize) if info.subgroupMinSize == info.subgroupMaxSize else 0
    lib.wgpuAdapterInfoFreeMembers(info[0])
    return Adapter(
        handle, vendor, device, description, api, kind, vendor_id, device_id, features, limits_of(limits), matrix_units, threads
    )  # fmt: skip


_REPORTS: list[Reports] = []


class HeaderGpu(Gpu):
    """A device behind ``webgpu.h``; subclasses know how their library submits, waits and makes modules."""

    def __init__(
        self, ffi: Any, lib: Any, device: Any, reports: Reports, limits: Limits, features: frozenset[str]
    ) -> None:
        super().__init__()
        self.ffi, self.lib, self.reports = ffi, lib, reports
        self.limits, self.features = limits, features
        # The library calls back until the last reference to the device is gone, which may be at the end of the process.
        _REPORTS.append(reports)
        self.device = ffi.gc(device, lib.wgpuDeviceRelease)
        self.queue = ffi.gc(lib.wgpuDeviceGetQueue(device), lib.wgpuQueueRelease)
        self._handles = itertools.count(1)
        self._objects: dict[int, Any] = {}
        self._buffers: set[int] = set()
        self._layouts: dict[tuple[str, ...], int] = {}
        self._staging: list[Staging] = []
        #: those of finished reads that did not hold the GPU up
        self._spare: list[Staging] = []
        self._timer: Timer | None = None
        self._awake: Awake | None = None
        self._encoder_descriptor = ffi.new("WGPUCommandEncoderDescriptor *")
        self._pass_descriptor = ffi.new("WGPUComputePassDescriptor *")
        self._commands = ffi.new("WGPUCommandBuffer[1]")

    @property
    def lost(self) -> str | None:  # type: ignore[override]
        """Why the device stopped working; None while it works."""
        return self.reports.lost

    # What libraries differ in

    @abstractmethod
    def _module(self, source: str, label: str, trusted: bool) -> Any:
        """Return a shader module."""

    @abstractmethod
    def _run(self, commands: Any) -> None:
        """Submit a command buffer, waiting where the GPU is too far behind."""

    @abstractmethod
    def moment(self) -> object:
        """Return what tells how far the GPU is when what was submitted last is done."""

    @abstractmethod
    def _map(self, buffer: Any, nbytes: int, info: Any) -> Any:
        """Ask for a buffer to be mapped; what is returned goes to :meth:`_finish_map`."""

    @abstractmethod
    def _finish_map(self, asked: Any, moment: Any) -> None:
        """Wait until the callback of a mapping was called; ``moment``: when the copy was submitted last that filled the buffer."""

    @abstractmethod
    def _nanoseconds(self) -> float:
        """Return the length of one step of a timestamp."""

    # Objects

    def _keep(self, made: Any, release: Any) -> int:
        handle = next(self._handles)
        self._objects[handle] = self.ffi.gc(made, release)
        return handle

    def _view(self, text: str) -> tuple[Any, list[Any]]:
        data = text.encode()
        memory = self.ffi.new("char[]", data)
        return memory, [memory, len(data)]

    def native_buffer(self, nbytes: int, usage: int) -> Any:
        """Return a raw buffer.

        Raises:
            GpuError: it could not be made.
        """
        descriptor = self.ffi.new("WGPUBufferDescriptor *", {"usage": usage, "size": nbytes})
        before = self.reports.take()
        made = self.lib.wgpuDeviceCreateBuffer(self.device, descriptor)
        error = self.reports.take()
        self.reports.put(before)
        if error is None and made == self.ffi.NULL:
            error = GpuError("out-of-memory", f"a buffer of {nbytes} bytes could not be created")
        if error is not None:
            if made != self.ffi.NULL:
                self.lib.wgpuBufferRelease(made)
            raise error
        return made

    def buffer(self, nbytes: int, use: str = STORAGE) -> int:
        handle = self._keep(self.native_buffer(nbytes, _USAGES[use]), self.lib.wgpuBufferRelease)
        self._buffers.add(handle)
        return handle

    def destroy(self, handle: int) -> None:
        gone = self._objects.pop(handle)
        if handle in self._buffers:
            self._buffers.remove(handle)
            self._destroy(gone)

    def _destroy(self, buffer: object) -> None:
        self.lib.wgpuBufferDestroy(buffer)

    def layout(self, kinds: tuple[str, ...]) -> int:
        found = self._layouts.get(kinds)
        if found is None:
            ffi, lib = self.ffi, self.lib
            entries = ffi.new("WGPUBindGroupLayoutEntry[]", len(kinds))
            for number, kind in enumerate(kinds):
                entries[number].binding = number
                entries[number].visibility = _COMPUTE_STAGE
                entries[number].buffer.type = _BINDINGS[kind]
            given = {"entryCount": len(kinds), "entries": entries}
            descriptor = ffi.new("WGPUBindGroupLayoutDescriptor *", given)
            group = lib.wgpuDeviceCreateBindGroupLayout(self.device, descriptor)
            group = ffi.gc(group, lib.wgpuBindGroupLayoutRelease)
            groups = ffi.new("WGPUBindGroupLayout[1]", [group])
            whole = ffi.new("WGPUPipelineLayoutDescriptor *", {"bindGroupLayoutCount": 1, "bindGroupLayouts": groups})
            pipeline = lib.wgpuDeviceCreatePipelineLayout(self.device, whole)
            found = next(self._handles)
            self._objects[found] = group, ffi.gc(pipeline, lib.wgpuPipelineLayoutRelease)
            self._layouts[kinds] = found
        return found

    def pipelines(self, requests: Sequence[PipelineRequest]) -> list[int | GpuError]:
        if COMPILERS > 2 and (len(requests) > 2 or self.lowers_clock):
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(COMPILERS) as pool:
                waiting = [pool.submit(self._pipeline, each) for each in requests]
                self._wait_for_compilers(waiting)
                made = [each.result() for each in waiting]
        else:
            made = [self._pipeline(each) for each in requests]
        release = self.lib.wgpuComputePipelineRelease
        return [each if isinstance(each, GpuError) else self._keep(each, release) for each in made]

    def pipeline_beside(self, request: PipelineRequest) -> int | GpuError:
        made = self._pipeline(request)
        return made if isinstance(made, GpuError) else self._keep(made, self.lib.wgpuComputePipelineRelease)

    def _wait_for_compilers(self, waiting: Sequence[Future[object]]) -> None:
        """Wait until others have compiled, and keep a card awake that would have nothing to do."""
        from concurrent.futures import wait

        if not self.lowers_clock:
            wait(waiting)
            return
        if self._awake is None:
            self._awake = Awake(self)
        self._awake.until(waiting)

    def run_alone(self, recording: int) -> None:
        """Run recorded commands, whatever else waits for its turn, and wait until that is done."""
        self.submit(recording)
        self.wait()

    def _pipeline(self, request: PipelineRequest) -> Any:
        before = self.reports.take_own()
        module = self._module(request.source, request.label, request.trusted)
        pipeline, error = self.ffi.NULL, self.reports.take_own()
        if error is None:
            name, entry = self._view("main")
            memory, label = self._view(request.label)
            layout = self._objects[request.layout][1]
            given = {"label": label, "layout": layout, "compute": {"module": module, "entryPoint": entry}}
            descriptor = self.ffi.new("WGPUComputePipelineDescriptor *", given)
            pipeline = self.lib.wgpuDeviceCreateComputePipeline(self.device, descriptor)
            error = self.reports.take_own()
            del name, memory
        if module != self.ffi.NULL:
            self.lib.wgpuShaderModuleRelease(module)
        self.reports.put(before)
        return pipeline if error is None else error

    def group(self, layout: int, entries: Sequence[tuple[int, int, int]]) -> int:
        ffi, objects = self.ffi, self._objects
        array = ffi.new("WGPUBindGroupEntry[]", len(entries))
        for number, (buffer, offset, size) in enumerate(entries):
            entry = array[number]
            entry.binding = number
            entry.buffer = objects[buffer]
            entry.offset = offset
            entry.size = size
        descriptor = ffi.new("WGPUBindGroupDescriptor *")
        descriptor.layout = objects[layout][0]
        descriptor.entryCount = len(entries)
        descriptor.entries = array
        return self._keep(self.lib.wgpuDeviceCreateBindGroup(self.device, descriptor), self.lib.wgpuBindGroupRelease)

    # Work

    def record(self, commands: Sequence[int]) -> int:
        handle = next(self._handles)
        self._objects[handle] = self._recorded(commands)
        return handle

    def _recorded(self, commands: Sequence[int]) -> object:
        """Return commands in the form that :meth:`_play` takes: copies, and lists of dispatches of one pass."""
        objects = self._objects
        parts: list[Any] = []
        last = 0
        for at in range(0, len(commands), WORDS):
            kind, first, second, *numbers = commands[at : at + WORDS]
            if kind != DISPATCH:
                target, offset, nbytes = numbers
                parts.append((objects[first], second, objects[target], offset, nbytes))
                continue
            if not parts or not isinstance(parts[-1], list):
                parts.append([])
                last = 0
            # A pipeline that is set already need not be set again.
            parts[-1].append((None if first == last else objects[first], objects[second], *numbers))
            last = first
        return parts

    def _play(self, encoder: object, recorded: object) -> None:
        """Encode recorded commands."""
        assert isinstance(recorded, list)
        lib = self.lib
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_group = lib.wgpuComputePassEncoderSetBindGroup
        run = lib.wgpuComputePassEncoderDispatchWorkgroups
        null = self.ffi.NULL
        for part in recorded:
            if isinstance(part, tuple):
                lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, *part)
                continue
            compute = lib.wgpuCommandEncoderBeginComputePass(encoder, self._pass_descriptor)
            for pipeline, group, x, y, z in part:
                if pipeline is not None:
                    set_pipeline(compute, pipeline)
                set_group(compute, 0, group, 0, null)
                run(compute, x, y, z)
            lib.wgpuComputePassEncoderEnd(compute)
            lib.wgpuComputePassEncoderRelease(compute)

    def _encode(self, recorded: object, copies: Sequence[tuple[object, int, object, int, int]] = ()) -> object:
        """Return an encoder holding recorded commands, if any, and copies (source, where from, target, where to, bytes)."""
        encoder = self.lib.wgpuDeviceCreateCommandEncoder(self.device, self._encoder_descriptor)
        if recorded is not None:
            self._play(encoder, recorded)
        for each in copies:
            self.lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, *each)
        return encoder

    def _send(self, encoder: object, run: bool = True) -> None:
        """Finish an encoder and submit it. What the library refuses is dropped: submitting it can end the process."""
        lib, commands = self.lib, self._commands
        commands[0] = lib.wgpuCommandEncoderFinish(encoder, self.ffi.NULL)
        if run and not self.reports.pending():
            self._run(commands)
            self.submits += 1
        if commands[0] != self.ffi.NULL:
            lib.wgpuCommandBufferRelease(commands[0])
        lib.wgpuCommandEncoderRelease(encoder)

    def submit(self, recording: int) -> None:
        self._send(self._encode(self._objects[recording]))

    def validate(self, recording: int) -> None:
        self._send(self._encode(self._objects[recording]), run=False)

    def timed(self, recording: int) -> float:
        if self._timer is None:
            self._timer = Timer(self)
        return self._timer.seconds(self._objects[recording])

    def write(self, buffer: int, offset: int, data: memoryview | bytes) -> None:
        native = self._objects[buffer]
        for start in range(0, len(data), WRITE_CHUNK):
            source = self.ffi.from_buffer(data[start : start + WRITE_CHUNK] if len(data) > WRITE_CHUNK else data)
            self.lib.wgpuQueueWriteBuffer(self.queue, native, offset + start, source, len(source))
            if len(data) > WRITE_CHUNK:
                self.wait()

    def read(self, buffer: int, offset: int, into: memoryview) -> None:
        nbytes, native = len(into), self._objects[buffer]
        if not nbytes:
            return
        stagings = self._stagings(nbytes)
        size = stagings[0].nbytes
        chunks = [(start, min(start + size, nbytes)) for start in range(0, nbytes, size)]
        try:
            for number, (start, stop) in enumerate(chunks):
                stagings[number % 2].request([(native, offset + start, stop - start)])
                # The GPU copies this chunk while the host takes the one before.
                if number:
                    stagings[(number - 1) % 2].receive([into[slice(*chunks[number - 1])]])
            stagings[(len(chunks) - 1) % 2].receive([into[slice(*chunks[-1])]])
        except BaseException:
            # A buffer may still be mapped or waiting to be.
            self._staging = []
            raise

    def read_all(self, parts: Sequence[tuple[int, int, memoryview]], after: int | None = None) -> None:
        nbytes = sum([(len(into) + 3) & ~3 for _, _, into in parts])
        if nbytes > STAGING_BYTES:
            if after is not None:
                self.submit(after)
            for each in parts:
                self.read(*each)
            return
        staging = self._stagings(nbytes)[0]
        try:
            before = None if after is None else self._objects[after]
            sources = [(self._objects[buffer], offset, len(into)) for buffer, offset, into in parts]
            self._bring(staging, sources, [into for _, _, into in parts], before)
        except BaseException:
            # The buffer may still be mapped or waiting to be.
            self._staging = []
            raise

    def _bring(
        self, staging: Staging, parts: Sequence[tuple[object, int, int]], places: Sequence[memoryview], before: object
    ) -> None:
        """Do what :meth:`read_all` does, after what was recorded ``before``, by way of a buffer that holds all of it."""
        staging.request(parts, before)
        staging.receive(places)

    def read_later(
        self, parts: Sequence[tuple[int, int, int]], after: int | None = None
    ) -> Callable[[Sequence[memoryview]], None]:
        nbytes = sum([(count + 3) & ~3 for _, _, count in parts])
        staging = self._spare.pop() if self._spare and self._spare[-1].nbytes >= nbytes else None
        staging = staging or Staging(self, max(nbytes, 256))
        before = None if after is None else self._objects[after]
        natives = [(self._objects[buffer], offset, count) for buffer, offset, count in parts]
        receive = self._copy_later(staging, natives, before)

        def finish(places: Sequence[memoryview]) -> None:
            receive(places)
            self._spare.append(staging)

        return finish

    def _copy_later(
        self, staging: Staging, parts: Sequence[tuple[object, int, int]], before: object
    ) -> Callable[[Sequence[memoryview]], None]:
        """Start what :meth:`_bring` does, and return what receives the bytes."""
        staging.request(parts, before)
        return staging.receive

    def _stagings(self, nbytes: int) -> list[Staging]:
        """Return the staging buffers for a read: one that holds it, or two of the largest size."""
        size = min(max(1 << (nbytes - 1).bit_length(), 1 << 16), STAGING_BYTES)
        if not self._staging or self._staging[0].nbytes < size:
            self._staging = [Staging(self, size)]
        if nbytes > self._staging[0].nbytes and len(self._staging) < 2:
            self._staging.append(Staging(self, STAGING_BYTES))
        return self._staging

    def close(self) -> None:
        self.lib.wgpuDeviceDestroy(self.device)

    def error(self) -> GpuError | None:
        return self.reports.take()
