"""The plugin hook: one CPU device."""

from __future__ import annotations

import numpy
from webgpu_torch_core.backend.interface import HOST, Backend, Device
from webgpu_torch_core.backend.plugins import hookimpl

from .device import CpuDevice
from .jit.adaptive import description


class CpuBackend(Backend):
    """The host processor through NumPy."""

    device_type = "cpu"
    interface_version = 1
    facts = HOST

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> Device:
        del index
        return CpuDevice()

    def describe(self) -> dict[str, str]:
        return {"numpy": numpy.__version__, "jit": description()}


@hookimpl
def webgpu_torch_backends() -> list[Backend]:
    """Return the CPU backend."""
    return [CpuBackend()]
