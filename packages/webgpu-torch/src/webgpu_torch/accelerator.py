"""The machine's accelerator, as ``torch.accelerator``: WebGPU, if there is an adapter."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from webgpu_torch_core import device as Device
from webgpu_torch_core import webgpu


def is_available() -> bool:
    """Return whether there is a WebGPU device."""
    return webgpu.is_available()


def device_count() -> int:
    """Return how many WebGPU devices there are."""
    return webgpu.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return ``device("webgpu")``, or None where there is no WebGPU device."""
    del check_available
    return Device("webgpu") if webgpu.is_available() else None


def current_device_index() -> int:
    """Return the index of the device that ``"webgpu"`` means."""
    return webgpu.current_device()


current_device_idx = current_device_index


def synchronize(device: Any = None) -> None:
    """Run what is pending and wait until it is done; raise what failed."""
    webgpu.synchronize(device)


def empty_cache() -> None:
    """Give unused buffers back to the driver."""
    webgpu.empty_cache()


def memory_allocated(device_index: Any = None) -> int:
    """Return the bytes in buffers that are in use."""
    return webgpu.memory_allocated(device_index)


def max_memory_allocated(device_index: Any = None) -> int:
    """Return the most bytes that were in use at once."""
    return webgpu.max_memory_allocated(device_index)


def memory_reserved(device_index: Any = None) -> int:
    """Return the bytes obtained from the driver."""
    return webgpu.memory_reserved(device_index)


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a device's type, such as ``torch.webgpu``; of the accelerator, else the CPU, without one.

    Raises:
        RuntimeError: not a device, or a type that has no module.
    """
    import importlib

    facade = importlib.import_module(__package__ or "")
    if device is None:
        device = current_accelerator() or "cpu"
    if not isinstance(device, str | Device):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = Device(device).type
    module = getattr(facade, kind, None)
    if module is None:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return module
