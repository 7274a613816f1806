"""Adadelta."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options, rate

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

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state, rho = self._counted(parameter, group), group["rho"]
        return _descend(
            parameter, group, state["square_avg"], state["acc_delta"], rate(parameter, group), rho, 1 - rho, group["eps"]
        )  # fmt: skip


@descending
def _descend(
    values: Tensor, grad: Tensor, squares: Tensor, changes: Tensor,
    rate: float | Tensor, kept: float, new: float, eps: float,
) -> None:  # fmt: skip
    """Change a parameter and the running means of the gradient's square and of the direction's."""
    squares.mul_(kept).add_(grad * grad * new)
    delta = (changes + eps).sqrt() / (squares + eps).sqrt() * grad
    changes.mul_(kept).add_(delta * delta * new)
    values.sub_(delta * rate)
