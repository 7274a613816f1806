"""``torch.mps``: no such device; the GPU is reached through WebGPU, as ``device("webgpu")``."""

from __future__ import annotations


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def empty_cache() -> None:
    """Do nothing."""


def manual_seed(seed: int) -> None:
    """Do nothing."""


manual_seed_all = manual_seed
