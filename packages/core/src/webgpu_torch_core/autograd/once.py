"""Custom functions whose gradients are not differentiated again: ``torch.autograd.function.once_differentiable``."""

from __future__ import annotations

from functools import wraps
from typing import Any

from ..record.grad_mode import recording
from ..tensors.tensor import Tensor
from .function import Function


class _Refusal(Function):
    """Passes on what must not be differentiated again."""

    transformed = True

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        """Return the tensors as they are."""
        return tuple(each.detach() for each in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Refuse."""
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Any) -> Any:
    """Mark a ``backward`` whose result cannot be differentiated again."""

    @wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        saved, recording.enabled = recording.enabled, False
        try:
            outputs = fn(ctx, *args)
        finally:
            recording.enabled = saved
        if not saved or not any(isinstance(each, Tensor) and each.requires_grad for each in args):
            return outputs
        parts = outputs if isinstance(outputs, tuple) else (outputs,)
        sources = [
            each.detach().requires_grad_() for each in parts if isinstance(each, Tensor) and each.dtype.category >= 2
        ]
        refusing = iter(_Refusal.apply(*sources)) if sources else iter(())
        return tuple(
            next(refusing) if isinstance(each, Tensor) and each.dtype.category >= 2 else each for each in parts
        )

    return wrapper
