"""``torch.cuda`` on a machine without CUDA: nothing is available, and asking for a device says what is."""

from __future__ import annotations

from typing import Any, NoReturn

from webgpu_torch_core import Tensor
from webgpu_torch_core.backend.interface import OutOfMemoryError as OutOfMemoryError

from . import amp as amp


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
    return False


def is_current_stream_capturing() -> bool:
    """Return False."""
    return False


def manual_seed(seed: int) -> None:
    """Do nothing, as PyTorch does without CUDA."""


manual_seed_all = manual_seed


def synchronize(device: object = None) -> None:
    """Refuse, as PyTorch without CUDA."""
    _refuse()


def empty_cache() -> None:
    """Do nothing, as PyTorch does before CUDA is used."""


def ipc_collect() -> None:
    """Do nothing, as PyTorch does before CUDA is used."""


def memory_allocated(device: object = None) -> int:
    """Return 0."""
    return 0


def max_memory_allocated(device: object = None) -> int:
    """Return 0."""
    return 0


def memory_reserved(device: object = None) -> int:
    """Return 0."""
    return 0


def reset_peak_memory_stats(device: object = None) -> None:
    """Do nothing."""


def reset_max_memory_allocated(device: object = None) -> None:
    """Do nothing."""


def reset_max_memory_cached(device: object = None) -> None:
    """Do nothing."""


def get_rng_state_all() -> list[Tensor]:
    """Return no states."""
    return []


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Accept no states."""
    if new_states:
        _refuse()


def get_device_capability(device: object = None) -> tuple[int, int]:
    """Refuse: there is no CUDA device."""
    _refuse()


def get_device_name(device: object = None) -> str:
    """Refuse: there is no CUDA device."""
    _refuse()


def get_device_properties(device: object = None) -> NoReturn:
    """Refuse: there is no CUDA device."""
    _refuse()


def current_device() -> int:
    """Refuse: there is no CUDA device."""
    _refuse()


def set_device(device: object) -> None:
    """Refuse: there is no CUDA device."""
    _refuse()


class device:
    """A block of code on another CUDA device; ``None`` and negative numbers, which change nothing, are all there is."""

    def __init__(self, device: object) -> None:
        if device is not None and not (isinstance(device, int) and device < 0):
            _refuse()

    def __enter__(self) -> None: ...

    def __exit__(self, *problem: object) -> None: ...


class device_of(device):
    """A block of code on a tensor's CUDA device; no tensor is on one, and nothing changes."""

    def __init__(self, obj: object) -> None:
        super().__init__(None)


class StreamContext(device):
    """A block of code whose work goes to a CUDA stream; ``None``, which changes nothing, is all there is."""


def stream(stream: object) -> StreamContext:
    """Return a context that changes nothing, for no stream."""
    return StreamContext(stream)


def current_stream(device: object = None) -> NoReturn:
    """Refuse: there is no CUDA device."""
    _refuse()


def default_stream(device: object = None) -> NoReturn:
    """Refuse: there is no CUDA device."""
    _refuse()


def init() -> None:
    """Refuse: there is no CUDA device."""
    _refuse()


def get_rng_state(device: object = "cuda") -> Tensor:
    """Refuse: there is no CUDA device."""
    _refuse()


def mem_get_info(device: object = None) -> tuple[int, int]:
    """Refuse: there is no CUDA device."""
    _refuse()


def get_arch_list() -> list[str]:
    """Return no architectures."""
    return []


def get_gencode_flags() -> str:
    """Return no flags."""
    return ""


def is_tf32_supported() -> bool:
    """Return False."""
    return False


def memory_stats(device: object = None) -> dict[str, int]:
    """Return no numbers, as PyTorch does before CUDA is used."""
    return {}


def reset_accumulated_memory_stats(device: object = None) -> None:
    """Do nothing."""


def memory_cached(device: object = None) -> int:
    """Return 0."""
    return 0


max_memory_reserved = max_memory_cached = memory_cached


default_generators: tuple[Any, ...] = ()


class Stream:
    """The type of CUDA streams, of which there are none."""

    def __init__(self, *_: object, **__: object) -> None:
        _refuse()


class Event:
    """The type of CUDA events, of which there are none."""

    def __init__(self, *_: object, **__: object) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise RuntimeError(
        "there is no CUDA device: this library reaches the GPU through WebGPU; use device='webgpu' "
        "(torch.webgpu.is_available() tells whether there is one)"
    )
