"""The name that tensors with gradients once had, as ``torch.autograd.variable``."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """``Variable(data, requires_grad)`` is the tensor; every tensor is an instance."""

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: Any = None) -> Any:
        """Return a tensor that shares the data."""
        del volatile
        return data.detach().requires_grad_(requires_grad)
