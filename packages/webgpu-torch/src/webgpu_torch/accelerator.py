"""The machine's accelerator, as ``torch.accelerator``: the first device that is not the host, WebGPU's if there is one."""

from __future__ import annotations

from collections import OrderedDict
from types import ModuleType
from typing import NoReturn

from webgpu_torch_core import device as Device
from webgpu_torch_core.api.device_modules import DeviceModule, device_module
from webgpu_torch_core.record.devices import accelerator


def _module() -> DeviceModule:
    return device_module(accelerator() or "webgpu")


def is_available() -> bool:
    """Return whether there is an accelerator and it works."""
    return accelerator() is not None


def device_count() -> int:
    """Return how many accelerators of the first type there are."""
    return _module().device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the type of accelerators, such as ``device("webgpu")``, or None where there is none."""
    found = accelerator()
    return None if found is None else Device(found)


def current_device_index() -> int:
    """Return the index of the device that the type's name without one means."""
    return _module().current_device()


current_device_idx = current_device_index


def synchronize(device: Device | int | str | None = None) -> None:
    """Run what is pending and wait until it is done; raise what failed."""
    _module().synchronize(device)


def empty_cache() -> None:
    """Give unused buffers back to the driver."""
    _module().empty_cache()


def memory_allocated(device_index: Device | int | str | None = None) -> int:
    """Return the bytes in buffers that are in use."""
    return _module().memory_allocated(device_index)


def max_memory_allocated(device_index: Device | int | str | None = None) -> int:
    """Return the most bytes that were in use at once."""
    return _module().max_memory_allocated(device_index)


def memory_reserved(device_index: Device | int | str | None = None) -> int:
    """Return the bytes obtained from the driver."""
    return _module().memory_reserved(device_index)


def max_memory_reserved(device_index: Device | int | str | None = None) -> int:
    """Return the most bytes that were obtained from the driver at once."""
    return _module().max_memory_reserved(device_index)


def memory_stats(device_index: Device | int | str | None = None) -> OrderedDict[str, int]:
    """Return the bytes in use and obtained, now and at most, and how many buffers are in use, by PyTorch's names for them."""
    return _module().memory_stats(device_index)


def get_memory_info(device_index: Device | int | str | None = None) -> NoReturn:
    """Refuse: WebGPU tells neither how much memory a device has nor how much of it is free.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "WebGPU does not tell how much memory a device has: torch.accelerator.memory_stats() has what is in use and obtained"
    )


def empty_host_cache() -> None:
    """Give unused buffers of the host back to the system."""
    device_module("cpu").empty_cache()


def reset_peak_memory_stats(device_index: Device | int | str | None = None) -> None:
    """Count the most bytes in use, and obtained, anew from now on."""
    _module().reset_peak_memory_stats(device_index)


def get_device_module(device: Device | str | None = None) -> ModuleType:
    """Return the module of a device's type, such as ``torch.webgpu``; of the accelerator, else the CPU, without one.

    Raises:
        RuntimeError: not a device, or a type that has no module and no backend.
    """
    import importlib

    if device is None:
        device = current_accelerator() or "cpu"
    if not isinstance(device, str | Device):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = Device(device).type
    module = getattr(importlib.import_module(__package__ or ""), kind, None)
    if isinstance(module, ModuleType):
        return module
    # Of a backend that is not ours.
    found = device_module(kind)
    if not found.device_count():
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return found
