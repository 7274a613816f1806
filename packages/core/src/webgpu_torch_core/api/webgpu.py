"""WebGPU devices, as ``torch.cuda`` speaks of CUDA ones."""

from __future__ import annotations

from ..operations.creation.reading import read_later
from .device_modules import device_module

_devices = device_module("webgpu")

device_count = _devices.device_count
is_available = _devices.is_available
reset = _devices.reset
open = _devices.open
current_device = _devices.current_device
get_device_name = _devices.get_device_name
synchronize = _devices.synchronize
memory_allocated = _devices.memory_allocated
max_memory_allocated = _devices.max_memory_allocated
max_memory_reserved = _devices.max_memory_reserved
memory_reserved = _devices.memory_reserved
memory_stats = _devices.memory_stats
reset_peak_memory_stats = _devices.reset_peak_memory_stats
empty_cache = _devices.empty_cache
manual_seed = _devices.manual_seed
manual_seed_all = _devices.manual_seed_all
get_rng_state = _devices.get_rng_state
set_rng_state = _devices.set_rng_state

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "get_rng_state", "is_available", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "open",
    "read_later", "reset", "reset_peak_memory_stats", "set_rng_state", "synchronize",
]  # fmt: skip
