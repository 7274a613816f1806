"""RMSprop."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options, rate

_ORDER = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"


class RMSprop(ParameterwiseOptimizer):
    """``p -= lr * g / (sqrt(v) + eps)`` with ``v`` the running mean of ``g²`` (Hinton, lecture 6e, 2012).

    ``centered`` subtracts the square of the gradient's own running mean from ``v`` (Graves, 2013).

    Args:
        params, lr, eps, centered: as in the formula.
        alpha: how slowly the means fade.
        momentum: of the steps.
        weight_decay: adds ``weight_decay * p`` to the gradient.
        maximize: climb instead of descending.
        foreach, capturable: accepted and without effect; the engine fuses and captures the update by itself.
        differentiable: whether autograd goes through the step, for parameters that are not leaves.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals(), _ORDER)
        if not alpha >= 0.0:
            raise ValueError(f"Invalid alpha value: {alpha}")
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = {"step": 0.0, "square_avg": torch.zeros_like(parameter)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        if group["centered"]:
            state["grad_avg"] = torch.zeros_like(parameter)
        return state

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state, kept = self._counted(parameter, group), group["alpha"]
        rolls = group["momentum"] > 0
        return _descend(
            parameter, group, state["square_avg"], state["grad_avg"] if group["centered"] else None,
            state["momentum_buffer"] if rolls else None, group["momentum"] if rolls else None,
            rate(parameter, group), kept, 1 - kept, group["eps"],
        )  # fmt: skip


@descending
def _descend(
    values: Tensor, grad: Tensor, squares: Tensor, mean: Tensor | None, buffer: Tensor | None, momentum: float | None,
    rate: float | Tensor, kept: float, new: float, eps: float,
) -> None:  # fmt: skip
    """Change a parameter and the running means of the gradient's square, of the gradient, and of the steps."""
    squares.mul_(kept).add_(grad * grad * new)
    variance = squares
    if mean is not None:
        mean.lerp_(grad, new)
        variance = squares - mean * mean
    direction = grad / (variance.sqrt() + eps)
    if buffer is not None:
        direction = buffer.mul_(momentum).add_(direction)
    values.sub_(direction * rate)
