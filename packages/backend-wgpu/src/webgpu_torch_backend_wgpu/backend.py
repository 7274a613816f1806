"""Finding adapters and opening devices."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from webgpu_torch_core.backend import Backend, Device

_KIND_RANK = {"DiscreteGPU": 0, "IntegratedGPU": 1, "VirtualGPU": 2, "Unknown": 3, "CPU": 4}
_API_RANK = {"Vulkan": 0, "Metal": 0, "D3D12": 1, "OpenGL": 2, "OpenGLES": 2}
#: the APIs by the names that an instance is asked for, in the order in which they are tried
_RANKS = {("Vulkan", "Metal", "DX12"): (0, 1), ("GL",): (2,)}
_ADVICE = "On Linux install a Vulkan driver (for software rendering: apt-get install mesa-vulkan-drivers libvulkan1)"


def adapters() -> list[Any]:
    """Return the adapters that can compute, the most capable first; ``WEBGPU_TORCH_ADAPTER`` keeps those it names."""
    wanted = os.environ.get("WEBGPU_TORCH_ADAPTER", "").lower()
    # Probing OpenGL is slow and complains on stderr where there is no display: it is asked only if nothing else is there.
    found: list[Any] = []
    for names in _RANKS:
        found = [each for each in _listed(names) if wanted in str(dict(each.info)).lower()]
        if found:
            break
    found = _one_api_each(found)
    return sorted(found, key=lambda each: _KIND_RANK.get(each.info["adapter_type"], 3))


_instance: Any = None


def _listed(names: tuple[str, ...]) -> list[Any]:
    """Return the adapters of some graphics APIs; of all of them where the program made a wgpu instance already."""
    global _instance
    import wgpu
    from wgpu.backends.wgpu_native import _helpers
    from wgpu.backends.wgpu_native.extras import set_instance_extras

    if _instance is not None and _helpers._the_instance is _instance:
        # Our own, which has no adapters that anybody uses: the next one takes its place.
        _helpers._the_instance = None
    with contextlib.suppress(RuntimeError):
        set_instance_extras(backends=names)
        _instance = _helpers._the_instance
    with _runtime_directory():
        found = wgpu.gpu.enumerate_adapters_sync()
    return [each for each in found if _API_RANK.get(each.info["backend_type"]) in _RANKS[names]]


@contextlib.contextmanager
def _runtime_directory() -> Iterator[None]:
    """Set ``XDG_RUNTIME_DIR`` for a while where it is not: Vulkan drivers look for a Wayland display, which complains."""
    name = "XDG_RUNTIME_DIR"
    if name in os.environ or not sys.platform.startswith("linux"):
        yield
        return
    os.environ[name] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ[name]


def _one_api_each(found: list[Any]) -> list[Any]:
    """Drop a card's second listing under another graphics API; two equal cards under one API both stay."""
    best: dict[tuple[int, int], int] = {}
    for each in found:
        card = (each.info["vendor_id"], each.info["device_id"])
        rank = _API_RANK[each.info["backend_type"]]
        best[card] = min(best.get(card, rank), rank)
    return [
        each
        for each in found
        if _API_RANK[each.info["backend_type"]] == best[(each.info["vendor_id"], each.info["device_id"])]
    ]


class WgpuBackend(Backend):
    """WebGPU through wgpu-native: Vulkan, Metal or DirectX 12; OpenGL where there is none of them."""

    device_type = "webgpu"
    interface_version = 1

    def __init__(self) -> None:
        self._adapters: list[Any] | None = None

    def _found(self) -> list[Any]:
        if self._adapters is None:
            self._adapters = adapters()
        return self._adapters

    def device_count(self) -> int:
        return len(self._found())

    def open(self, index: int) -> Device:
        from .device import WgpuDevice

        found = self._found()
        if not 0 <= index < len(found):
            raise RuntimeError(f"WebGPU adapter {index} does not exist: {len(found)} found. {_ADVICE}")
        return WgpuDevice(found[index], index)

    def describe(self) -> dict[str, str]:
        import wgpu

        lines = {"wgpu": wgpu.__version__}
        for number, each in enumerate(self._found()):
            info, limits = each.info, each.limits
            lines[f"adapter {number}"] = (
                f"{info['device']} ({info['description']}, {info['backend_type']}, {info['adapter_type']})"
            )
            lines[f"limits {number}"] = (
                f"{limits['max-storage-buffer-binding-size']} bytes per binding, {limits['max-buffer-size']} "
                f"per buffer, {limits['max-storage-buffers-per-shader-stage']} storage buffers"
            )
        if not self._found():
            lines["adapter"] = f"none found. {_ADVICE}"
        return lines
