"""Nodes of the gradient graph that programs make or name themselves."""

from __future__ import annotations

from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd import Function
from webgpu_torch_core.dispatch.below import Value
from webgpu_torch_core.record.node import AccumulateGrad as AccumulateGrad


class _Delayed(Function):
    @staticmethod
    def forward(ctx: Value, message: str, *tensors: Tensor) -> Value:
        """Return views of the tensors."""
        ctx.message = message
        return tuple(each.view_as(each) for each in tensors)

    @staticmethod
    def backward(ctx: Value, *gradients: Value) -> Value:
        """Raise what was to be raised."""
        del gradients
        raise RuntimeError(ctx.message)


class DelayedError:
    """Returns the tensors it is called with; a backward pass that comes to them raises an error.

    Args:
        msg: what the error says.
        num_inputs: how many tensors there will be.
    """

    def __init__(self, msg: str, num_inputs: int) -> None:
        self._message = msg
        del num_inputs

    def __call__(self, *tensors: Tensor) -> Value:
        """Return the tensors, one or a tuple."""
        found = _Delayed.apply(self._message, *tensors)
        return found[0] if len(tensors) == 1 else found


class _Undefined(Function):
    @staticmethod
    def forward(ctx: Value, *tensors: Tensor) -> Value:
        """Return views of the tensors."""
        return tuple(each.view_as(each) for each in tensors)

    @staticmethod
    def backward(ctx: Value, *gradients: Value) -> Value:
        """Return no gradient at all."""
        return (None,) * len(gradients)


class UndefinedGrad:
    """Returns the tensors it is called with, to which no gradient flows back: their nodes are visited without one."""

    def __call__(self, *tensors: Tensor) -> Value:
        """Return the tensors, one or a tuple."""
        found = _Undefined.apply(*tensors)
        return found[0] if len(tensors) == 1 else found
