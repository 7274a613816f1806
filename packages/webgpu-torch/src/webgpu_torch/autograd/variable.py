"""The name that tensors with gradients once had, as ``torch.autograd.variable``."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd import engine
from webgpu_torch_core.notices import warn


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """``Variable(data, requires_grad)`` is the tensor; every tensor is an instance."""

    #: what runs backward passes; ``queue_callback`` of it is called in hooks
    _execution_engine = engine

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: Any = None) -> Any:
        """Return a tensor that shares the data."""
        if volatile is not None:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        return data.detach().requires_grad_(requires_grad)
