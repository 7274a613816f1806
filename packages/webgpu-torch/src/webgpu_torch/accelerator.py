"""The machine's accelerator, as ``torch.accelerator``: the first device that is not the host, WebGPU's if there is one."""

from __future__ import annotations

from collections import OrderedDict
from types import ModuleType
from typing import NoReturn

from webgpu_torch_core import device as Device
from webgpu_torch_core.api.device_modules import DeviceModule, device_module
from webgpu_torch_core.record.devices import accelerator
from webgpu_torch_core.record.devices import engine_for as _engine_for

from .streams import Stream as _Stream
from .streams import place_of as _place_of


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


def _checked(device: Device | int | str | None) -> Device:
    """Return an accelerator.

    Raises:
        RuntimeError: there is none.
        ValueError: a device of another type.
    """
    kind, found = accelerator(), _place_of(0 if device is None else device)
    if found.type != kind:
        raise ValueError(f"{found.type} doesn't match the current accelerator {kind}.")
    return found


def set_device_index(device: Device | int | str, /) -> None:
    """Do nothing for the first device and for negative numbers: a type's name without a number always means the first.

    Raises:
        RuntimeError: another device, which is named by its number.
        ValueError: a device of another type.
    """
    if isinstance(device, int) and device < 0:
        return
    found = _checked(device)
    if found.index:
        raise RuntimeError(f"a type's name without a number means its first device: name the other by device='{found}'")


set_device_idx = set_device_index


class device_index:
    """A block of code during which a number's device is the current one; None changes nothing.

    Raises:
        RuntimeError: not the first device, which is the current one always.
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *problem: object) -> None: ...


def current_stream(device: Device | int | str | None = None, /) -> _Stream:
    """Return the queue of an accelerator's work.

    Raises:
        RuntimeError: there is no accelerator.
        ValueError: a device of another type.
    """
    return _Stream(_checked(device))


def set_stream(stream: _Stream) -> None:
    """Do nothing but look at the stream: each device has one queue.

    Raises:
        RuntimeError: not a stream of the first device.
        ValueError: a stream of a device of another type.
    """
    set_device_index(stream.device)


def get_device_capability(device: Device | int | str | None = None, /) -> dict[str, object]:
    """Return the types that tensors on an accelerator may have, under ``supported_dtypes``.

    Raises:
        RuntimeError: there is no accelerator.
        ValueError: a device of another type.
    """
    return {"supported_dtypes": set(_engine_for(_checked(device)).device.dtypes)}


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
