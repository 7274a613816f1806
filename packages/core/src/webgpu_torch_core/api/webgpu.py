"""WebGPU devices, as ``torch.cuda`` speaks of CUDA ones."""

from __future__ import annotations

from typing import Any

from ..backend.plugins import registry
from ..operations.creation.reading import read_later as read_later
from ..operations.random.generator import default_generator
from ..record.devices import canonical_device, engine_for, lost_devices
from ..record.devices import device as Device
from ..record.devices import synchronize as synchronize_device
from ..tensors.tensor import Tensor


def device_count() -> int:
    """Return how many WebGPU devices there are."""
    return registry.device_count("webgpu")


def is_available() -> bool:
    """Return whether there is a WebGPU device and it works: False after one was lost, until it is used again or reset."""
    return device_count() > 0 and not lost_devices("webgpu")


def reset() -> None:
    """Open devices that were lost again; tensors that lived there stay lost."""
    for each in lost_devices("webgpu"):
        engine_for(each)


def current_device() -> int:
    """Return the index of the device that ``"webgpu"`` means."""
    return 0


def _device(device: Any) -> Any:
    return engine_for(canonical_device("webgpu" if device is None else device)).device


def get_device_name(device: Any = None) -> str:
    """Return the adapter's name."""
    return _device(device).description().get("adapter", "unknown")


def synchronize(device: Any = None) -> None:
    """Run what is pending and wait until it is done; raise what failed."""
    synchronize_device("webgpu" if device is None else device)


def memory_allocated(device: Any = None) -> int:
    """Return the bytes in buffers that are in use."""
    return _device(device).memory_allocated()


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that were in use at once."""
    found = _device(device)
    return getattr(found, "max_memory_allocated", found.memory_allocated)()


def memory_reserved(device: Any = None) -> int:
    """Return the bytes obtained from the driver."""
    return _device(device).memory_reserved()


def empty_cache() -> None:
    """Give unused buffers back to the driver."""
    for index in range(device_count()):
        engine_for(canonical_device(f"webgpu:{index}")).device.empty_cache()


def manual_seed(seed: int) -> None:
    """Start the WebGPU random streams from a seed."""

    for index in range(device_count()):
        default_generator(canonical_device(f"webgpu:{index}")).manual_seed(seed)


manual_seed_all = manual_seed


def get_rng_state(device: Device | int | str = "webgpu") -> Tensor:
    """Return the state of a device's random stream, a tensor of bytes of one dimension on the CPU."""
    return default_generator(_place(device)).get_state()


def set_rng_state(new_state: Tensor, device: Device | int | str = "webgpu") -> None:
    """Set the state of a device's random stream to one of :func:`get_rng_state`, a tensor of bytes of one dimension."""
    default_generator(_place(device)).set_state(new_state)


def _place(device: Device | int | str) -> Device:
    return canonical_device(f"webgpu:{device}" if isinstance(device, int) else device)
