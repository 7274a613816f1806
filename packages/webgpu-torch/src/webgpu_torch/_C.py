"""The few names of PyTorch's extension module that libraries touch."""

from __future__ import annotations

from webgpu_torch_core import device as device

from .accelerator import current_accelerator


def _get_accelerator(check: bool | None = None) -> device:
    """Return the accelerator's device, else the CPU's."""
    del check
    return current_accelerator() or device("cpu")
