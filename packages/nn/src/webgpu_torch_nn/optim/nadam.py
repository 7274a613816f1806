"""NAdam."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import real_view
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, count, gradient, options, rate


def _momentum(state: dict[str, Any], group: dict[str, Any], ahead: int = 0) -> float:
    """Return ``beta1 * (1 - 0.96 ** (t * momentum_decay) / 2)``."""
    return group["betas"][0] * (1.0 - 0.5 * 0.96 ** ((state["step"] + ahead) * group["momentum_decay"]))


_ORDER = "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"


class NAdam(ParameterwiseOptimizer):
    """Adam with Nesterov momentum (Dozat, 2016).

    ``p -= lr * (μₜ₊₁ m / (1 - ∏μ₁…μₜ₊₁) + (1 - μₜ) g / (1 - ∏μ₁…μₜ)) / (sqrt(v̂) + eps)``, with
    ``μₜ = beta1 (1 - 0.96 ** (t momentum_decay) / 2)``.

    Args:
        params, lr, betas, eps, momentum_decay: as in the formula; ``m`` and ``v`` are :class:`Adam`'s.
        weight_decay: adds ``weight_decay * p`` to the gradient, or with ``decoupled_weight_decay`` shrinks ``p`` by
            ``lr * weight_decay`` instead.
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
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals(), _ORDER)
        if not momentum_decay >= 0.0:
            raise ValueError(f"Invalid momentum_decay value: {momentum_decay}")
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": 0.0,
            "mu_product": 1.0,
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._state_of(parameter, group)
        count(state)
        state["mu_product"] = state["mu_product"] * _momentum(state, group)
        values, grad = gradient(parameter, group)
        mean, squares = real_view(state["exp_avg"]), real_view(state["exp_avg_sq"])
        mean.lerp_(grad, (1 - group["betas"][0]))
        squares.mul_(group["betas"][1]).add_(grad * grad * (1 - group["betas"][1]))
        corrected = squares / (1 - group["betas"][1] ** state["step"])
        denominator = corrected.sqrt() + group["eps"]
        present = -rate(group) * (1 - _momentum(state, group)) / (1 - state["mu_product"])
        values.add_(grad / denominator * present)
        coming = -rate(group) * _momentum(state, group, 1) / (1 - state["mu_product"] * _momentum(state, group, 1))
        values.add_(mean / denominator * coming)
