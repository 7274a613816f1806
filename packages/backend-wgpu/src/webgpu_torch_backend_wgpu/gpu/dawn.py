"""WebGPU through a Dawn library, found at run time: ``DAWN_LIB`` names it, or a wheel that brings one is installed.

Dawn's C interface changes between its versions. Those known here are in dawn_declarations.py; before a
library is used in this process, a process of its own opens a device with it and computes (:func:`~webgpu_torch_backend_wgpu.gpu.dawn_library.works`).
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from queue import PriorityQueue
from typing import TYPE_CHECKING, Any

from .. import config
from .blobs import Blobs
from .choosing import file_identity
from .dawn_declarations import declarations
from .dawn_library import library, works
from .declarations import interface, opened
from .encoder import WRITTEN, Arriving, Commands, Encoder
from .encoder import library as encoder_library
from .header import COMPILERS, HeaderGpu, adapter_of, limits_of
from .interface import MATRIX_FEATURE, Adapter, Gpu, GpuError, Limits, MatrixUnit, PipelineRequest, Runtime
from .processes import runtime_directory
from .reports import Reports
from .staging import Staging, copies_to, unread
from .yielding import yielding

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_FEATURES = {"shader-f16": 0xB, "subgroups": 0x12, "timestamp-query": 0x9, MATRIX_FEATURE: 0x50034}
#: makes the functions of one device callable from several threads
_IMPLICIT_SYNCHRONIZATION = 0x50004
_TIMED_WAITS, _WAIT_ONLY, _SPONTANEOUS, _CORE, _HIGH_PERFORMANCE = 1, 1, 3, 2, 2
_TOGGLES, _MATRIX_CONFIGURATIONS, _WGSL_SOURCE, _MAP_READ, _FOREVER = 0x5000A, 0x5003B, 2, 1, (1 << 64) - 1
#: what halves and matrix units need on the adapters that have them
_ALWAYS_ON = ("vulkan_enable_f16_on_nvidia", "allow_unsafe_apis", "use_vulkan_memory_model")
#: for what is known to keep WebGPU's rules: neither bounds of arrays nor uses of buffers and pipelines are checked
_UNCHECKED = ("disable_robustness", "skip_validation")
#: timestamps are rounded to 100 microseconds else, longer than most kernels take
_ALWAYS_OFF = b"timestamp_quantization"
#: Dawn's numbers of the types that matrices are made of
_COMPONENTS = {1: "f32", 2: "f16", 3: "u32", 4: "i32", 5: "u8", 6: "i8"}
#: submits the GPU may be behind, and after how many each a future is asked for
_SUBMITS_IN_FLIGHT, _ASK_EVERY = 64, 8
#: seconds that a wait for a GPU asks again and again before it sleeps: to be woken takes tens of microseconds
_POLLING = 0.002
#: most bytes that are read by one call of the encoder's library
FETCHED = 1 << 16
#: dispatches that are submitted first where another thread encodes them: a submit takes it twice as long as a dispatch
_FIRST_SUBMIT = 8


class DawnRuntime(Runtime):
    """Dawn."""

    name = "dawn"

    def __init__(self) -> None:
        path = library()
        if path is None:
            raise RuntimeError(works()[1])
        self.path = path
        self.ffi: Any = interface(declarations())
        self.lib: Any = opened(self.ffi, path)
        self._alive: list[Any] = []
        # Those that no device was made of.
        self._adapters: dict[int, Any] = {}
        self._handles = count()
        limits = self.ffi.new("WGPUInstanceLimits *", {"timedWaitAnyMaxCount": _SUBMITS_IN_FLIGHT})
        features = self.ffi.new("int[]", [_TIMED_WAITS])
        given = {"nextInChain": self._toggles(), "count": 1, "features": features, "limits": limits}
        self._instance = self.lib.wgpuCreateInstance(self.ffi.new("WGPUInstanceDescriptor *", given))
        if self._instance == self.ffi.NULL:
            raise RuntimeError(f"{path} makes no instance with the interface known here")

    def _toggles(self, *names: str) -> Any:
        """Return the chain that switches Dawn's options on and off, those that always are among them."""
        ffi = self.ffi
        on, off = [ffi.new("char[]", each.encode()) for each in (*_ALWAYS_ON, *names)], ffi.new("char[]", _ALWAYS_OFF)
        enabled, disabled = ffi.new("char const*[]", on), ffi.new("char const*[]", [off])
        made = ffi.new(
            "WGPUDawnTogglesDescriptor *",
            {"enabledCount": len(on), "enabled": enabled, "disabledCount": 1, "disabled": disabled},
        )
        made.chain.sType = _TOGGLES
        self._alive += [on, off, enabled, disabled, made]
        return made

    def version(self) -> str:
        return (
            f"{self.path} (dispatches are encoded {'beside what records' if encoder_library() else 'by what records'})"
        )

    def wait(self, future: Any, polling: float = 0.0) -> None:
        """Wait until a future is done; for so many seconds without sleeping."""
        waits, wait_any = self.ffi.new("WGPUFutureWaitInfo *"), self.lib.wgpuInstanceWaitAny
        waits.future = future
        until = time.perf_counter() + polling
        while polling and not waits.completed and time.perf_counter() < until:
            wait_any(self._instance, 1, waits, 0)
        if not waits.completed:
            wait_any(self._instance, 1, waits, _FOREVER)

    def adapters(self, suits: Callable[[Adapter], bool]) -> list[Adapter]:
        listed = []
        # Dawn gives the one that suits best: it lists none.
        for native in self._requested():
            has = frozenset(
                name for name, number in _FEATURES.items() if self.lib.wgpuAdapterHasFeature(native, number)
            )
            handle = next(self._handles)
            units = self._matrix_units(native) if MATRIX_FEATURE in has else ()
            listed.append(adapter_of(self.ffi, self.lib, handle, native, has, units))
            self._adapters[handle] = native
        return [each for each in listed if suits(each)]

    def _requested(self) -> list[Any]:
        """Return the adapter that suits best, anew: a device consumes the one that it is made of."""
        ffi, lib = self.ffi, self.lib
        found: list[Any] = []

        @ffi.callback("void(int, WGPUAdapter, WGPUStringView, void *, void *)")
        def answer(_status: int, adapter: Any, _message: Any, _first: Any, _second: Any) -> None:
            if adapter != ffi.NULL:
                found.append(ffi.gc(adapter, lib.wgpuAdapterRelease))

        options = ffi.new("WGPURequestAdapterOptions *", {"featureLevel": _CORE, "powerPreference": _HIGH_PERFORMANCE})
        options.nextInChain = self._toggles()
        with runtime_directory():
            asked = [ffi.NULL, _WAIT_ONLY, answer, ffi.NULL, ffi.NULL]
            self.wait(lib.wgpuInstanceRequestAdapter(self._instance, options, asked))
        return found

    def _matrix_units(self, native: Any) -> tuple[MatrixUnit, ...]:
        """Return what an adapter's matrix units compute; nothing where the size of a subgroup is not known beforehand."""
        ffi, lib = self.ffi, self.lib
        chain = ffi.new("WGPUAdapterPropertiesSubgroupMatrixConfigs *")
        chain.chain.sType = _MATRIX_CONFIGURATIONS
        info = ffi.new("WGPUAdapterInfo *", {"nextInChain": chain})
        lib.wgpuAdapterGetInfo(native, info)
        threads = int(info.subgroupMaxSize)
        found: list[MatrixUnit] = []
        for number in range(chain.configCount if info.subgroupMinSize == threads else 0):
            each = chain.configs[number]
            types = _COMPONENTS.get(each.componentType), _COMPONENTS.get(each.resultComponentType)
            if None not in types:
                found.append(MatrixUnit(*types, int(each.M), int(each.N), int(each.K), threads))
        lib.wgpuAdapterInfoFreeMembers(info[0])
        return tuple(found)

    def open(self, adapter: Adapter, features: Sequence[str]) -> Gpu:
        ffi, lib = self.ffi, self.lib
        native = self._adapters.pop(adapter.handle, None) or next(iter(self._requested()), None)
        if native is None:
            raise RuntimeError(f"Dawn finds no adapter any more; {adapter.device} was one")
        reports = Reports(ffi)
        limits, granted = ffi.new("WGPULimits *"), ffi.new("WGPULimits *")
        lib.wgpuAdapterGetLimits(native, limits)
        threads = bool(lib.wgpuAdapterHasFeature(native, _IMPLICIT_SYNCHRONIZATION))
        numbers = [_FEATURES[each] for each in features] + [_IMPLICIT_SYNCHRONIZATION] * threads
        array = ffi.new("int[]", numbers)
        descriptor = ffi.new(
            "WGPUDeviceDescriptor *", {"requiredFeatureCount": len(numbers), "requiredFeatures": array}
        )
        # Checks are a matter of the device, not of a module: all our modules are trusted unless asked otherwise, and so is what
        # is recorded, whose checks take nearly as long as the rest of a dispatch.
        toggles = self._toggles(*(() if config.CHECKED.is_on() else _UNCHECKED))
        blobs = Blobs(reports, file_identity(self.path))
        kept = blobs.descriptor(ffi.addressof(toggles.chain))
        # The library calls back as long as there is a pipeline to be made.
        self._alive += [blobs, kept]
        descriptor.nextInChain = kept
        descriptor.requiredLimits = limits
        descriptor.deviceLostCallbackInfo.mode = _SPONTANEOUS
        descriptor.deviceLostCallbackInfo.callback = ffi.cast("void *", reports.on_loss)
        descriptor.uncapturedErrorCallbackInfo.callback = ffi.cast("void *", reports.uncaptured)
        device = lib.wgpuAdapterCreateDevice(native, descriptor)
        if device == ffi.NULL:
            raise RuntimeError(f"Dawn gave no device of {adapter.device}: {reports.lost or reports.take()}")
        lib.wgpuDeviceGetLimits(device, granted)
        # A processor that computes has better to do than to ask.
        polling = 0.0 if adapter.kind == "cpu" else _POLLING
        gpu = DawnGpu(self, device, reports, limits_of(granted), frozenset(features), polling)
        gpu.lowers_clock, gpu.compiles_beside = adapter.kind == "discrete", threads
        # What is checked is refused before the next is recorded.
        if threads and not config.CHECKED.is_on() and (path := encoder_library()) is not None:
            gpu.encoder = Encoder(gpu, self._instance, _ASK_EVERY, _SUBMITS_IN_FLIGHT // _ASK_EVERY, polling > 0, path)
            gpu.first_submit, gpu.compiles_later = _FIRST_SUBMIT, True
        return gpu


def _hand_out(data: bytearray | memoryview, places: Sequence[memoryview]) -> None:
    """Copy bytes to their places, each of which begins at a word."""
    view, at = memoryview(data), 0
    for into in places:
        into[:] = view[at : at + len(into)]
        at += (len(into) + 3) & ~3


class DawnGpu(HeaderGpu):
    """A device of Dawn."""

    def __init__(
        self,
        runtime: DawnRuntime,
        device: Any,
        reports: Reports,
        limits: Limits,
        features: frozenset[str],
        polling: float,
    ) -> None:
        super().__init__(runtime.ffi, runtime.lib, device, reports, limits, features)
        self._polling = polling
        self._wait_for = functools.partial(runtime.wait, polling=polling)
        # By how many submits there were: what tells that they are done, the oldest first.
        self._in_flight: deque[tuple[int, Any]] = deque()
        self._done = reports.callback("void(int, WGPUStringView, void *, void *)", lambda *_: None)
        self._when_done = runtime.ffi.new("WGPUCallbackInfo *", {"mode": _WAIT_ONLY, "callback": self._done})
        #: what encodes and submits on a thread of its own, if this installation has that
        self.encoder: Encoder | None = None
        self._compilers: ThreadPoolExecutor | None = None
        #: what tells when pipelines are there that are compiled later
        self._compiling: list[Future[object]] = []
        #: pipelines to compile, the longest text first
        self._requested: PriorityQueue[tuple[int, int, PipelineRequest, Arriving]] = PriorityQueue()

    def pipelines_later(self, requests: Sequence[PipelineRequest]) -> list[int | GpuError]:
        encoder = self.encoder
        if encoder is None:
            return self.pipelines(requests)
        if self._compilers is None:
            from concurrent.futures import ThreadPoolExecutor

            self._compilers = ThreadPoolExecutor(COMPILERS, "webgpu-torch-pipelines")
        made: list[int | GpuError] = []
        for each in requests:
            arriving = encoder.place()
            handle = next(self._handles)
            self._objects[handle] = arriving
            made.append(handle)
            self._requested.put((-len(each.source), handle, each, arriving))
            yielding.begin()
            try:
                self._compiling.append(self._compilers.submit(self._compile, encoder))
            except RuntimeError:
                # The interpreter ends, and starts no thread.
                self._compile(encoder)
        return made

    def _compile(self, encoder: Encoder) -> None:
        """Compile the longest of the pipelines that others wait for, so that none begins when all others are done.

        Where that fails, what was recorded with it since is lost, and the device with it.
        """
        _, _, request, arriving = self._requested.get_nowait()
        made: object = GpuError("internal", "nobody said why")
        try:
            made = self._pipeline(request)
        finally:
            if isinstance(made, GpuError):
                made = GpuError("lost", f"kernel '{request.label}' did not compile: {made}")
                self.reports.put_beside(made)
            else:
                made = self.ffi.gc(made, self.lib.wgpuComputePipelineRelease)
            encoder.arrive(arriving, made)
            yielding.end()

    def _module(self, source: str, label: str, trusted: bool) -> Any:
        ffi = self.ffi
        chain = ffi.new("WGPUShaderSourceWGSL *")
        chain.chain.sType = _WGSL_SOURCE
        code, chain.code = self._view(source)
        name, view = self._view(label)
        descriptor = ffi.new("WGPUShaderModuleDescriptor *", {"nextInChain": chain, "label": view})
        made = self.lib.wgpuDeviceCreateShaderModule(self.device, descriptor)
        del code, name
        return made

    def _submitted(self) -> Any:
        return self.lib.wgpuQueueOnSubmittedWorkDone(self.queue, self._when_done[0])

    def _recorded(self, commands: Sequence[int]) -> object:
        encoder = self.encoder
        return super()._recorded(commands) if encoder is None else encoder.prepare(commands, self._objects)

    def _play(self, encoder: object, recorded: object) -> None:
        if not isinstance(recorded, Commands) or self.encoder is None:
            super()._play(encoder, recorded)
            return
        if recorded.arriving:
            self._settle()
        if self._can_run(recorded):
            self.encoder.play(encoder, recorded, self._pass_descriptor)

    def submit(self, recording: int) -> None:
        if self.encoder is None:
            super().submit(recording)
            return
        recorded = self._objects[recording]
        if self._can_run(recorded) and not self.reports.pending():
            self.encoder.run(recorded)
            self.submits += 1

    def _can_run(self, commands: Commands) -> bool:
        """Return whether no pipeline that commands need was refused, which is reported else."""
        for each in commands.arriving:
            if each.error is not None:
                self.reports.put(each.error)
                return False
        if commands.arriving:
            commands.arriving = [each for each in commands.arriving if not each.arrived]
        return True

    def run_alone(self, recording: int) -> None:
        if self.encoder is None:
            super().run_alone(recording)
            return
        # The thread that submits may be the one that waits.
        encoder = self._encode(self._objects[recording])
        commands = self.ffi.new("WGPUCommandBuffer[1]", [self.lib.wgpuCommandEncoderFinish(encoder, self.ffi.NULL)])
        if commands[0] != self.ffi.NULL:
            self.lib.wgpuQueueSubmit(self.queue, 1, commands)
            self.submits += 1
            self.lib.wgpuCommandBufferRelease(commands[0])
        self.lib.wgpuCommandEncoderRelease(encoder)
        self._wait_for(self._submitted())

    def write(self, buffer: int, offset: int, data: memoryview | bytes) -> None:
        if self.encoder is not None and len(data) <= WRITTEN:
            self.encoder.write(self._objects[buffer], offset, data)
        else:
            self._settle()
            super().write(buffer, offset, data)

    def _destroy(self, buffer: object) -> None:
        if self.encoder is None:
            super()._destroy(buffer)
        else:
            self.encoder.destroy(buffer)

    def close(self) -> None:
        self._settle()
        super().close()

    def _settle(self) -> None:
        """Wait until what was handed over is submitted: what follows is done by this thread."""
        if self.encoder is not None:
            if self._compiling:
                self._wait_for_compilers(self._compiling)
                self._compiling.clear()
            self.encoder.wait()

    def _run(self, commands: Any) -> None:
        self._settle()
        self.lib.wgpuQueueSubmit(self.queue, 1, commands)
        if self.submits % _ASK_EVERY == 0:
            self._in_flight.append((self.submits, self._submitted()))
            while self.submits - self._in_flight[0][0] > _SUBMITS_IN_FLIGHT:
                self._wait_for(self._in_flight.popleft()[1])

    def wait(self) -> None:
        self._settle()
        self._wait_for(self._submitted())
        self._collect_done(self.submits, self._handed_over)
        self.reports.check()

    def reclaim(self) -> None:
        # Dawn frees a buffer once work that was submitted after its end is done, which it looks for with the next.
        for _ in range(2):
            nothing = self.record([])
            self.submit(nothing)
            self.wait()
            self.destroy(nothing)

    @property
    def _handed_over(self) -> int:
        return 0 if self.encoder is None else self.encoder.given

    def _collect_done(self, submits: int, jobs: int) -> None:
        """Take back what tells that one of the first submits is done, all of which are: Dawn keeps it until somebody waits."""
        if self.encoder is not None:
            self.encoder.collect(jobs)
        while self._in_flight and self._in_flight[0][0] <= submits:
            self._wait_for(self._in_flight.popleft()[1])

    def _map(self, buffer: Any, nbytes: int, info: Any) -> Any:
        info.mode = _WAIT_ONLY
        return self.lib.wgpuBufferMapAsync(buffer, _MAP_READ, 0, nbytes, info[0])

    def moment(self) -> tuple[int, int]:
        return self.submits, self._handed_over

    def _finish_map(self, asked: Any, moment: tuple[int, int]) -> None:
        submits, jobs = moment
        self._wait_for(asked)
        # The copy itself may be what an answer is waited for of.
        self._collect_done(submits - 1, jobs)

    def _bring(
        self, staging: Staging, parts: Sequence[tuple[object, int, int]], places: Sequence[memoryview], before: object
    ) -> None:
        encoder = self.encoder
        copies, nbytes = copies_to(staging.native, parts)
        # Pipelines that are still compiled are waited for where that can be interrupted.
        commands = before if isinstance(before, Commands) else None
        if encoder is None or nbytes > FETCHED or self._compiling or (commands is not None and commands.arriving):
            super()._bring(staging, parts, places, before)
            return
        data = bytearray(nbytes)
        if not self._fetched(encoder, encoder.encode(commands, copies), staging.native, data):
            raise unread(self)
        _hand_out(data, places)

    def _fetched(self, encoder: Encoder, encoded: int, staging: object, data: bytearray) -> bool:
        """Submit what was encoded, and wait for the bytes that it copies to a mappable buffer; return whether they came.

        What the library refused is dropped: submitting it can end the process.
        """
        if not encoded or self.reports.pending():
            if encoded:
                self.lib.wgpuCommandBufferRelease(self.ffi.cast("WGPUCommandBuffer", encoded))
            return False
        self.submits += 1
        moment = self.moment()
        came = encoder.fetch(encoded, staging, data, self._polling)
        self._collect_done(*moment)
        self.reports.check()
        return came

    def _copy_later(
        self, staging: Staging, parts: Sequence[tuple[object, int, int]], before: object
    ) -> Callable[[Sequence[memoryview]], None]:
        encoder = self.encoder
        if encoder is None:
            return super()._copy_later(staging, parts, before)
        return self._asking(encoder, staging, parts, before)()

    def _asking(
        self, encoder: Encoder, staging: Staging, parts: Sequence[tuple[object, int, int]], before: object
    ) -> Callable[[], Callable[[Sequence[memoryview]], None]]:
        """Return what does :meth:`_copy_later` again and again."""
        copies, nbytes = copies_to(staging.native, parts)
        commands = before if isinstance(before, Commands) else None
        staging.answer, reports = encoder.answer(), self.reports
        ask = encoder.asking(commands, copies, staging.answer, nbytes)

        def start() -> Callable[[Sequence[memoryview]], None]:
            job = 0
            if (commands is None or not commands.arriving or self._can_run(commands)) and not reports.pending():
                job = ask()
                self.submits += 1
            submits = self.submits

            def take(places: Sequence[memoryview]) -> None:
                # Where pipelines are still compiled, that can be interrupted.
                if self._compiling:
                    self._settle()
                whole = len(places) == 1 and len(places[0]) == nbytes
                data = places[0] if whole else bytearray(nbytes)
                # The buffer is kept, also where what asks is not.
                came = job and encoder.take(staging.answer, job, data, self._polling)
                self._collect_done(submits, job)
                reports.check()
                if not came:
                    raise unread(self)
                if not whole:
                    _hand_out(data, places)

            return take

        return start

    def read_again(
        self, parts: Sequence[tuple[int, int, int]], after: int | None
    ) -> Callable[[], Callable[[Sequence[memoryview]], None]]:
        if self.encoder is None:
            return super().read_again(parts, after)
        staging = Staging(self, max(sum([(count + 3) & ~3 for _, _, count in parts]), 256))
        natives = [(self._objects[buffer], offset, count) for buffer, offset, count in parts]
        return self._asking(self.encoder, staging, natives, None if after is None else self._objects[after])

    def _nanoseconds(self) -> float:
        return 1.0
