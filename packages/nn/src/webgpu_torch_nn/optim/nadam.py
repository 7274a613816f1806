"""NAdam."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options, rate


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

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state, (first, second) = self._counted(parameter, group), group["betas"]
        now, then = _momentum(state, group), _momentum(state, group, 1)
        product = state["mu_product"] = state["mu_product"] * now
        full = rate(parameter, group)
        return _descend(
            parameter, group, state["exp_avg"], state["exp_avg_sq"], 1 - first, second, 1 - second,
            1 - second ** state["step"], group["eps"], full * (now - 1) / (1 - product), full * then / (product * then - 1),
        )  # fmt: skip


@descending
def _descend(
    values: Tensor, grad: Tensor, mean: Tensor, squares: Tensor, mean_rate: float, kept: float, square_rate: float,
    correction: float, eps: float, present: float | Tensor, coming: float | Tensor,
) -> None:  # fmt: skip
    """Change a parameter, its gradient's running mean and that of the square: by the gradient of now and the mean to come."""
    mean.lerp_(grad, mean_rate)
    squares.mul_(kept).add_(grad * grad * square_rate)
    denominator = (squares / correction).sqrt() + eps
    values.add_(grad / denominator * present)
    values.add_(mean / denominator * coming)
