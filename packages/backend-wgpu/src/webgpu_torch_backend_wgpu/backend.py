"""Finding adapters and opening devices."""

from __future__ import annotations

import sys

from webgpu_torch_core.backend.interface import Backend, Device, Facts

from . import config
from .gpu.interface import Adapter, Runtime

_KIND_RANK = {"discrete": 0, "integrated": 1, "virtual": 2, "unknown": 3, "cpu": 4}
_API_RANK = {"Vulkan": 0, "Metal": 0, "WebGPU": 0, "D3D12": 1, "OpenGL": 2, "OpenGLES": 2}
_ADVICE = (
    "This browser offers no WebGPU adapter: see https://github.com/gpuweb/gpuweb/wiki/Implementation-Status"
    if sys.platform == "emscripten"
    else "On Linux install a Vulkan driver (for software rendering: apt-get install mesa-vulkan-drivers libvulkan1)"
)


def adapters(runtime: Runtime) -> list[Adapter]:
    """Return the adapters that can compute, the most capable first; ``WEBGPU_TORCH_ADAPTER`` keeps those it names."""
    return sorted(_one_api_each(runtime.adapters(_suits)), key=lambda each: _KIND_RANK[each.kind])


def _suits(adapter: Adapter) -> bool:
    names = f"{adapter.vendor} {adapter.device} {adapter.description} {adapter.api} {adapter.kind}".lower()
    return adapter.api in _API_RANK and config.ADAPTER.text().lower() in names


def _one_api_each(found: list[Adapter]) -> list[Adapter]:
    """Drop a card's second listing under another graphics API; two equal cards under one API both stay."""
    best: dict[tuple[int, int], int] = {}
    for each in found:
        card = each.vendor_id, each.device_id
        best[card] = min(best.get(card, 9), _API_RANK[each.api])
    return [each for each in found if _API_RANK[each.api] == best[each.vendor_id, each.device_id]]


def chosen_runtime() -> tuple[Runtime, str]:
    """Return the WebGPU implementation, and why: the one that ``WEBGPU_TORCH_RUNTIME`` names; in a browser its own; Dawn where
    it is installed and faster than wgpu-native.

    Raises:
        RuntimeError: another name, or no Dawn library works here.
    """
    if sys.platform == "emscripten":
        from .gpu.browser import BrowserRuntime

        return BrowserRuntime(), "the only one in pages"
    from .gpu.natives import chosen_native

    return chosen_native()


class WgpuBackend(Backend):
    """WebGPU: Vulkan, Metal or DirectX 12; OpenGL where there is none of them."""

    device_type = "webgpu"
    interface_version = 1
    facts = Facts(dlpack_type=15)

    def __init__(self, runtime: Runtime | None = None) -> None:
        self._runtime = runtime
        self._why = "given"
        self._adapters: list[Adapter] | None = None

    @property
    def runtime(self) -> Runtime:
        """The WebGPU implementation."""
        if self._runtime is None:
            self._runtime, self._why = chosen_runtime()
        return self._runtime

    def adapters(self) -> list[Adapter]:
        """Return the adapters by the index of their device."""
        if self._adapters is None:
            self._adapters = adapters(self.runtime)
        return self._adapters

    def device_count(self) -> int:
        return len(self.adapters())

    async def prepare(self) -> None:
        from .limits import wanted_features

        await self.runtime.prepare(_suits, wanted_features)

    def open(self, index: int) -> Device:
        from .device import WgpuDevice
        from .limits import wanted_features
        from .self_test import known_facts

        found = self.adapters()
        if not 0 <= index < len(found):
            raise RuntimeError(f"WebGPU adapter {index} does not exist: {len(found)} found. {_ADVICE}")
        adapter = found[index]
        gpu = self.runtime.open(adapter, wanted_features(adapter))
        facts = known_facts(gpu, adapter, self.runtime.computes)
        if config.PAIRS.text("1") == "0":
            facts = facts.replace(keeps_rests=False)
        return WgpuDevice(gpu, adapter, facts, index)

    def numerics(self) -> str:
        """Return how accurate the scalar functions are on the first adapter, one line each (``info --numerics``)."""
        from .limits import wanted_features
        from .numerics import numerics_table

        if not self.adapters():
            return f"no WebGPU adapter was found. {_ADVICE}"
        adapter = self.adapters()[0]
        gpu = self.runtime.open(adapter, wanted_features(adapter))
        return "\n".join([f"{adapter.device}: largest errors in ULP", *map(repr, numerics_table(gpu))])

    def describe(self) -> dict[str, str]:
        runtime = self.runtime
        lines = {"runtime": f"{runtime.name} {runtime.version()}, {self._why}"}
        for number, each in enumerate(self.adapters()):
            limits = each.limits
            lines[f"adapter {number}"] = f"{each.device} ({each.description}, {each.api}, {each.kind})"
            lines[f"limits {number}"] = (
                f"{limits.max_storage_buffer_binding_size} bytes per binding, {limits.max_buffer_size} "
                f"per buffer, {limits.max_storage_buffers_per_shader_stage} storage buffers"
            )
            lines[f"matrix units {number}"] = ", ".join(map(str, each.matrix_units)) or "none that this runtime offers"
        if not self.adapters():
            lines["adapter"] = f"none found. {_ADVICE}"
        return lines
