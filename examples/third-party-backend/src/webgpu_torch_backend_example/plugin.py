"""What webgpu-torch finds through the entry point: the hook, and the backend it returns."""

from __future__ import annotations

import platform

from webgpu_torch_core.backend.interface import Backend, Device, Facts
from webgpu_torch_core.backend.plugins import hookimpl

from .device import ExampleDevice


class ExampleBackend(Backend):
    """One device, which every machine has."""

    device_type = "example"
    interface_version = 1
    # Python loops: nothing is faster in 16 bits, and no other library reaches the memory.
    facts = Facts(on_host=True, autocast_types=(), dlpack_type=None)

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> Device:
        if index != 0:
            raise RuntimeError(f"device 'example:{index}' does not exist: there is only example:0")
        return ExampleDevice()

    def describe(self) -> dict[str, str]:
        return {"python": platform.python_version()}


@hookimpl
def webgpu_torch_backends() -> list[Backend]:
    """Return the backends of this plugin; no device is opened yet."""
    return [ExampleBackend()]
