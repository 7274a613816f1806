"""Tensors' memory through DLPack, as ``torch.utils.dlpack``."""

from __future__ import annotations

import enum
from typing import Any

from webgpu_torch_core import Tensor, from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Numbers of device types in DLPack."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLWebGPU = 15


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule that lends a tensor's memory, for one consumer."""
    from webgpu_torch_core.operations.creation.dlpack import exported

    return exported(tensor)
