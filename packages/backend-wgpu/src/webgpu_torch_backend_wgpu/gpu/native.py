"""WebGPU through wgpu-native: Vulkan, Metal or DirectX 12; OpenGL where there is none of them.

The library and the declarations of its functions are wgpu-py's; the package itself is not imported.
"""

from __future__ import annotations

import atexit
import sys
from collections import deque
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import config
from .declarations import interface, opened
from .header import HeaderGpu, adapter_of, limits_of
from .interface import Adapter, Gpu, Runtime
from .processes import runtime_directory
from .reports import Reports


def _resources() -> Path:
    """Return the folder of wgpu-py's library and header.

    Raises:
        ImportError: wgpu-py is not installed.
    """
    found = find_spec("wgpu")
    if found is None or not found.submodule_search_locations:
        raise ImportError("the package wgpu is not installed; `pip install wgpu` brings wgpu-native")
    return Path(found.submodule_search_locations[0]) / "resources"


def _library() -> Path:
    """Return wgpu-native's file: ``WGPU_LIB_PATH``, or wgpu-py's.

    Raises:
        ImportError: wgpu-py brings none for this platform.
    """
    given = config.NATIVE_LIBRARY.text()
    if given:
        return Path(given)
    ending = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    for path in sorted(_resources().glob(f"*wgpu_native*{ending}"), reverse=True):
        if "debug" not in path.name:
            return path
    raise ImportError(f"the installed package wgpu holds no library for {sys.platform}: name one in WGPU_LIB_PATH")


_ffi: Any = interface((_resources() / "combined_header.h").read_text(encoding="utf-8"))
_lib: Any = opened(_ffi, str(_library()))

#: submits the GPU may be behind before recording waits for it: bounds the memory that unfinished work holds
SUBMITS_IN_FLIGHT = 64
_POLL_EVERY = 16
#: the features used here, by WebGPU's names where it has them
_FEATURES = {
    "shader-f16": _lib.WGPUFeatureName_ShaderF16,
    "shader-int64": _lib.WGPUNativeFeature_ShaderInt64,
    "subgroups": _lib.WGPUNativeFeature_Subgroup,
    "subgroup-barrier": _lib.WGPUNativeFeature_SubgroupBarrier,
    "timestamp-query": _lib.WGPUFeatureName_TimestampQuery,
    "timestamp-query-inside-encoders": _lib.WGPUNativeFeature_TimestampQueryInsideEncoders,
    "timestamp-query-inside-passes": _lib.WGPUNativeFeature_TimestampQueryInsidePasses,
}
#: probing OpenGL is slow and complains on stderr where there is no display: it is asked only if nothing else is there
_FIRST, _LAST = 0b1101, 0b0010
#: constants of wgpu.h that cffi does not give
_DEFAULT_FLAGS, _NO_CHECKS, _MAP_READ = 1 << 24, 0, 1


class NativeRuntime(Runtime):
    """wgpu-native."""

    name = "wgpu"

    def __init__(self) -> None:
        self._instances: list[Any] = []
        self._adapters: list[Any] = []
        # While the library is still there: the interpreter's own end may unload it first. Adapters go before instances.
        atexit.register(self._instances.clear)
        atexit.register(self._adapters.clear)

    def version(self) -> str:
        return version("wgpu")

    def adapters(self, suits: Callable[[Adapter], bool]) -> list[Adapter]:
        with runtime_directory():
            found = [each for each in self._listed(_FIRST) if suits(each)]
            return found or [each for each in self._listed(_LAST) if suits(each)]

    def _listed(self, apis: int) -> list[Adapter]:
        extras = _ffi.new("WGPUInstanceExtras *", {"backends": apis, "flags": _DEFAULT_FLAGS})
        extras.chain.sType = _lib.WGPUSType_InstanceExtras
        descriptor = _ffi.new("WGPUInstanceDescriptor *")
        descriptor.nextInChain = _ffi.cast("WGPUChainedStruct *", extras)
        instance = _ffi.gc(_lib.wgpuCreateInstance(descriptor), _lib.wgpuInstanceRelease)
        self._instances.append(instance)
        count = _lib.wgpuInstanceEnumerateAdapters(instance, _ffi.NULL, _ffi.NULL)
        array = _ffi.new("WGPUAdapter[]", count)
        _lib.wgpuInstanceEnumerateAdapters(instance, _ffi.NULL, array)
        found = []
        for each in array:
            self._adapters.append(_ffi.gc(each, _lib.wgpuAdapterRelease))
            has = frozenset(name for name, number in _FEATURES.items() if _lib.wgpuAdapterHasFeature(each, number))
            found.append(adapter_of(_ffi, _lib, len(self._adapters) - 1, each, has))
        return found

    def open(self, adapter: Adapter, features: Sequence[str]) -> Gpu:
        native = self._adapters[adapter.handle]
        reports = Reports(_ffi)
        limits = _ffi.new("WGPULimits *")
        more = _ffi.new("WGPUNativeLimits *")
        more.chain.sType = _lib.WGPUSType_NativeLimits
        limits.nextInChain = _ffi.addressof(more, "chain")
        _lib.wgpuAdapterGetLimits(native, limits)
        numbers = _ffi.new("WGPUFeatureName[]", sorted(_FEATURES[each] for each in features))
        descriptor = _ffi.new("WGPUDeviceDescriptor *")
        descriptor.requiredFeatureCount = len(numbers)
        descriptor.requiredFeatures = numbers
        descriptor.requiredLimits = limits
        descriptor.deviceLostCallbackInfo.mode = _lib.WGPUCallbackMode_AllowSpontaneous
        descriptor.deviceLostCallbackInfo.callback = reports.on_loss
        descriptor.uncapturedErrorCallbackInfo.callback = reports.uncaptured
        device = _requested(native, descriptor)
        granted = _ffi.new("WGPULimits *")
        _lib.wgpuDeviceGetLimits(device, granted)
        gpu = NativeGpu(_ffi, _lib, device, reports, limits_of(granted), frozenset(features))
        gpu.lowers_clock, gpu.compiles_beside = adapter.kind == "discrete", True
        return gpu


def _requested(adapter: Any, descriptor: Any) -> Any:
    """Return the device that an adapter gives for a descriptor.

    Raises:
        RuntimeError: it gives none.
    """
    answers: list[tuple[int, Any, str]] = []

    @_ffi.callback("void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)")
    def answer(status: int, device: Any, message: Any, _first: Any, _second: Any) -> None:
        text = _ffi.string(message.data, message.length).decode(errors="replace") if message.data else ""
        answers.append((status, device, text))

    info = _ffi.new("WGPURequestDeviceCallbackInfo *")
    info.mode = _lib.WGPUCallbackMode_AllowSpontaneous
    info.callback = answer
    # wgpu-native answers before this returns.
    _lib.wgpuAdapterRequestDevice(adapter, descriptor, info[0])
    if not answers or answers[0][0] != _lib.WGPURequestDeviceStatus_Success:
        raise RuntimeError(f"the adapter gave no device: {answers[0][2] if answers else 'it did not answer'}")
    return answers[0][1]


class NativeGpu(HeaderGpu):
    """A device of wgpu-native."""

    enables_subgroups = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._index = _ffi.new("WGPUSubmissionIndex *")
        self._in_flight: deque[int] = deque()

    def _module(self, source: str, label: str, trusted: bool) -> Any:
        chain = _ffi.new("WGPUShaderSourceWGSL *")
        chain.chain.sType = _lib.WGPUSType_ShaderSourceWGSL
        code, chain.code = self._view(source)
        descriptor = _ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = _ffi.cast("WGPUChainedStruct *", chain)
        name, descriptor.label = self._view(label)
        if trusted:
            made = _lib.wgpuDeviceCreateShaderModuleTrusted(self.device, descriptor, _NO_CHECKS)
        else:
            made = _lib.wgpuDeviceCreateShaderModule(self.device, descriptor)
        del code, name
        return made

    def _run(self, commands: Any) -> None:
        self._in_flight.append(_lib.wgpuQueueSubmitForIndex(self.queue, 1, commands))
        if len(self._in_flight) > SUBMITS_IN_FLIGHT:
            self._index[0] = self._in_flight[SUBMITS_IN_FLIGHT // 2]
            _lib.wgpuDevicePoll(self.device, True, self._index)
            for _ in range(SUBMITS_IN_FLIGHT // 2 + 1):
                self._in_flight.popleft()
        elif self.submits % _POLL_EVERY == 0:
            _lib.wgpuDevicePoll(self.device, False, _ffi.NULL)

    def wait(self) -> None:
        # A submit of nothing sends pending writes on.
        _lib.wgpuQueueSubmit(self.queue, 0, _ffi.NULL)
        self._poll()
        self.reports.check()

    def _poll(self) -> None:
        _lib.wgpuDevicePoll(self.device, True, _ffi.NULL)
        self._in_flight.clear()

    def _map(self, buffer: Any, nbytes: int, info: Any) -> Any:
        info.mode = _lib.WGPUCallbackMode_AllowProcessEvents
        _lib.wgpuBufferMapAsync(buffer, _MAP_READ, 0, nbytes, info[0])
        return self

    def moment(self) -> int:
        return self._in_flight[-1]

    def _finish_map(self, asked: Any, moment: int) -> None:
        self._index[0] = moment
        _lib.wgpuDevicePoll(self.device, True, self._index)
        while self._in_flight and self._in_flight[0] <= moment:
            self._in_flight.popleft()

    def _nanoseconds(self) -> float:
        return float(_lib.wgpuQueueGetTimestampPeriod(self.queue))
