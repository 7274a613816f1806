"""``torch.cuda`` on a machine without CUDA: nothing is available, and asking for a device says what is."""

from __future__ import annotations

from typing import Any, NoReturn

from webgpu_torch_core import Tensor


def is_available() -> bool:
    """Return False: the GPU is reached through WebGPU, as ``device("webgpu")``."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False."""
    del including_emulation
    return False


def is_current_stream_capturing() -> bool:
    """Return False."""
    return False


def manual_seed(seed: int) -> None:
    """Do nothing, as PyTorch does without CUDA."""
    del seed


manual_seed_all = manual_seed


def synchronize(device: Any = None) -> None:
    """Refuse, as PyTorch without CUDA."""
    del device
    _refuse()


def empty_cache() -> None:
    """Do nothing, as PyTorch does before CUDA is used."""


def ipc_collect() -> None:
    """Do nothing, as PyTorch does before CUDA is used."""


def memory_allocated(device: Any = None) -> int:
    """Return 0."""
    del device
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """Return 0."""
    del device
    return 0


def memory_reserved(device: Any = None) -> int:
    """Return 0."""
    del device
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing."""
    del device


def reset_max_memory_allocated(device: Any = None) -> None:
    """Do nothing."""
    del device


def reset_max_memory_cached(device: Any = None) -> None:
    """Do nothing."""
    del device


def get_rng_state_all() -> list[Tensor]:
    """Return no states."""
    return []


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Accept no states."""
    if new_states:
        _refuse()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Refuse: there is no CUDA device."""
    del device
    _refuse()


def get_device_name(device: Any = None) -> str:
    """Refuse: there is no CUDA device."""
    del device
    _refuse()


def get_device_properties(device: Any = None) -> Any:
    """Refuse: there is no CUDA device."""
    del device
    _refuse()


def current_device() -> int:
    """Refuse: there is no CUDA device."""
    _refuse()


def set_device(device: Any) -> None:
    """Refuse: there is no CUDA device."""
    del device
    _refuse()


default_generators: tuple[Any, ...] = ()


class Stream:
    """The type of CUDA streams, of which there are none."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _refuse()


class Event:
    """The type of CUDA events, of which there are none."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise RuntimeError(
        "there is no CUDA device: this library reaches the GPU through WebGPU; use device='webgpu' "
        "(torch.webgpu.is_available() tells whether there is one)"
    )
