"""Adadelta."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import real_view
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, count, gradient, options, rate

_ORDER = "lr rho eps weight_decay maximize capturable foreach differentiable"


class Adadelta(ParameterwiseOptimizer):
    """``p -= lr * d`` with ``d = g * sqrt(u + eps) / sqrt(v + eps)`` (Zeiler, 2012).

    ``v`` and ``u`` are running means, decaying by ``rho``, of ``g²`` and ``d²``.

    Args:
        params, lr, rho, eps: as in the formula.
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
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, options(locals(), _ORDER))

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "square_avg": torch.zeros_like(parameter), "acc_delta": torch.zeros_like(parameter)}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._state_of(parameter, group)
        count(state)
        values, grad = gradient(parameter, group)
        squares, changes = real_view(state["square_avg"]), real_view(state["acc_delta"])
        old, new = group["rho"], 1 - group["rho"]
        eps = group["eps"]
        squares.mul_(old).add_(grad * grad * new)
        delta = (changes + eps).sqrt() / (squares + eps).sqrt() * grad
        changes.mul_(old).add_(delta * delta * new)
        values.sub_(delta * rate(group))
