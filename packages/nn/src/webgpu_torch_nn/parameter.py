"""Parameters and buffers: the tensors that a :class:`~webgpu_torch_nn.Module` registers by assignment."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor


class _ParameterType(type(Tensor)):
    """Let a tensor of a custom class count as a Parameter once it carries ``_is_param``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class _BufferType(type(Tensor)):
    """A Buffer is an ordinary tensor that carries ``_is_buffer``; there are no instances of the class itself."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Parameter(Tensor, metaclass=_ParameterType):
    """A tensor that a Module lists among its parameters when it is assigned as an attribute.

    Args:
        data: the values, any shape and dtype; an empty tensor if None.
        requires_grad: whether autograd computes its gradient, also under ``torch.no_grad()``.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = torch.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        result: Any = data.detach().requires_grad_(requires_grad)
        kind: type = type(result)
        if kind is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {kind.__name__} was found instead."
            )
        result._is_param = True
        return result

    def __deepcopy__(self, memo: dict) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor, metaclass=_BufferType):
    """A tensor that a Module lists among its buffers when it is assigned as an attribute.

    Args:
        data: the values, any shape and dtype; an empty tensor if None.
        persistent: whether ``state_dict`` includes it.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = torch.empty(0)
        result: Any = data.detach().requires_grad_(data.requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result
