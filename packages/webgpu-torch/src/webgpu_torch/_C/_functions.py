"""Nodes of the gradient graph that programs make or name themselves."""

from __future__ import annotations

from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd import Function
from webgpu_torch_core.dispatch.torch_dispatch import Value
from webgpu_torch_core.record.node import AccumulateGrad as AccumulateGrad


class _Ending(Function):
    @staticmethod
    def forward(ctx: Value, message: str | None, *tensors: Tensor) -> Value:
        """Return views of the tensors."""
        ctx.message = message
        return tuple(each.view_as(each) for each in tensors)

    @staticmethod
    def backward(ctx: Value, *gradients: Value) -> Value:
        """Raise what was to be raised, or return no gradient at all."""
        if ctx.message is not None:
            raise RuntimeError(ctx.message)
        return (None, *(None for _ in gradients))


def _ended(message: str | None, tensors: tuple[Tensor, ...]) -> Value:
    found = _Ending.apply(message, *tensors)
    return found[0] if len(tensors) == 1 else found


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
        return _ended(self._message, tensors)


class UndefinedGrad:
    """Returns the tensors it is called with, to which no gradient flows back: their nodes are visited without one."""

    def __call__(self, *tensors: Tensor) -> Value:
        """Return the tensors, one or a tuple."""
        return _ended(None, tensors)
