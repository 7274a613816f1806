"""Adamax."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import real_view
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, count, gradient, options, rate


class Adamax(ParameterwiseOptimizer):
    """``p -= lr / (1 - beta1ᵗ) * m / u`` with ``u = max(beta2 * u, |g| + eps)`` (Kingma and Ba, 2014, section 7.1).

    Args:
        params, lr, betas, eps: as in the formula; ``m`` is the running mean of the gradient.
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
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options(locals()))

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": torch.zeros_like(parameter), "exp_inf": torch.zeros_like(parameter)}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._state_of(parameter, group)
        count(state)
        values, grad = gradient(parameter, group)
        mean, largest = real_view(state["exp_avg"]), real_view(state["exp_inf"])
        mean.lerp_(grad, (1 - group["betas"][0]))
        faded = largest * group["betas"][1]
        largest.copy_(torch.maximum(faded, grad.abs() + group["eps"]))
        values.add_(mean / largest * (-rate(group) / (1 - group["betas"][0] ** state["step"])))
