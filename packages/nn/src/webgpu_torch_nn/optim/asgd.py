"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options
from webgpu_torch_nn.optim.states import to_scalar


class ASGD(ParameterwiseOptimizer):
    """``p = p * (1 - lambd * η) - η * g`` with ``η = lr / (1 + lambd * lr * t) ** alpha`` (Polyak and Juditsky, 1992).

    ``state[p]["ax"]`` is the parameter's mean over the steps after ``t0``.

    Args:
        params, lr, lambd, alpha, t0: as in the formula.
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
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "eta": to_scalar(group["lr"]), "mu": 1.0, "ax": torch.zeros_like(parameter)}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state, lr, lambd = self._counted(parameter, group), to_scalar(group["lr"]), group["lambd"]
        call = _descend(parameter, group, state["ax"], 1 - lambd * state["eta"], state["eta"], state["mu"])
        state["eta"] = lr / (1 + lambd * lr * state["step"]) ** group["alpha"]
        state["mu"] = 1 / max(1, state["step"] - group["t0"])
        return call


@descending
def _descend(values: Tensor, grad: Tensor, mean: Tensor, shrinks: float, rate: float, new: float) -> None:
    """Change a parameter and its mean over the steps."""
    values.mul_(shrinks)
    values.sub_(grad * rate)
    mean.lerp_(values, new)
