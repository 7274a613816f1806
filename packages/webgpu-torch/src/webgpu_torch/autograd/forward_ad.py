"""Forward-mode differentiation under ``torch.autograd.forward_ad``: no tensor carries a tangent; ``torch.func.jvp`` computes one."""

from __future__ import annotations

from typing import NamedTuple

from webgpu_torch_core import Tensor


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the tensor and its tangent, which is None: no tensor carries one."""
    del level
    return UnpackedDualTensor(tensor, None)
