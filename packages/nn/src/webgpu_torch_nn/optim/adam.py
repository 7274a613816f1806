"""Adam."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import rate_tensor, real_view, to_scalar
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, count, gradient, options


class Adam(ParameterwiseOptimizer):
    """``p -= lr * m̂ / (sqrt(v̂) + eps)`` with bias-corrected running means of the gradient and its square.

    ``m = beta1 m + (1 - beta1) g``, ``v = beta2 v + (1 - beta2) g²``, ``m̂ = m / (1 - beta1ᵗ)``,
    ``v̂ = v / (1 - beta2ᵗ)`` (Kingma and Ba, 2014); ``amsgrad`` uses the largest ``v`` so far (Reddi et al., 2018).

    Args:
        params, lr, betas, eps, amsgrad: as in the formula.
        weight_decay: adds ``weight_decay * p`` to the gradient, or with ``decoupled_weight_decay`` shrinks ``p`` by
            ``lr * weight_decay`` instead (Loshchilov and Hutter, 2017).
        maximize: climb instead of descending.
        foreach, fused, capturable: accepted and without effect; the engine fuses and captures the update by itself. In a
            function under ``torch.compile`` the step count, a learning rate that a schedule changes and the other numbers
            of the group take effect in replays too.
        differentiable: must be False.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = options(
            lr=lr,
            betas=tuple(to_scalar(beta) for beta in betas),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = "exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ())
        return {"step": 0.0} | {name: torch.zeros_like(parameter) for name in names}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._state_of(parameter, group)
        count(state)
        values, grad = gradient(parameter, group)
        exp_avg, exp_avg_sq = real_view(state["exp_avg"]), real_view(state["exp_avg_sq"])
        exp_avg.lerp_(grad, (1 - group["betas"][0]))
        exp_avg_sq.mul_(group["betas"][1])
        exp_avg_sq.add_(grad * grad * (1 - group["betas"][1]))
        second_moment = exp_avg_sq
        if group["amsgrad"]:
            second_moment = real_view(state["max_exp_avg_sq"])
            second_moment.copy_(torch.maximum(second_moment, exp_avg_sq))
        scale = (1 - group["betas"][1] ** state["step"]) ** 0.5
        denominator = (second_moment.sqrt() / scale).add_(group["eps"])
        values.add_(exp_avg / denominator * _step_size(values, state, group))


def _step_size(parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
    """Return the negative learning rate with the first moment's bias correction."""
    rate = rate_tensor(parameter, group)
    if rate is not None:
        return rate * (-1 / (1 - group["betas"][0] ** state["step"]))
    return -to_scalar(group["lr"]) / (1 - group["betas"][0] ** state["step"])
