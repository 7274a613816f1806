"""The plugin hook: one CPU device."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

from webgpu_torch_core.backend.interface import HOST, Backend, Device
from webgpu_torch_core.backend.plugins import hookimpl


class CpuBackend(Backend):
    """The host processor through NumPy."""

    device_type = "cpu"
    interface_version = 1
    facts = HOST

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> Device:
        from .device import CpuDevice

        return CpuDevice()

    def describe(self) -> dict[str, str]:
        from .jit.adaptive import description

        return {"numpy": version("numpy"), "jit": description()}


@hookimpl
def webgpu_torch_backends() -> list[Backend]:
    """Return the CPU backend. NumPy is imported with the first device: programs that only use another need not wait for it.

    Raises:
        ModuleNotFoundError: NumPy is not installed.
    """
    if find_spec("numpy") is None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
    return [CpuBackend()]
