"""Adam."""

from __future__ import annotations

from typing import Any, NoReturn

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options, rate
from webgpu_torch_nn.optim.states import to_scalar

_ORDER = "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"


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
        differentiable: whether autograd goes through the step, for parameters that are not leaves.

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
        betas = betas if differentiable else tuple(to_scalar(beta) for beta in betas)  # type: ignore[assignment]
        super().__init__(params, options(locals(), _ORDER))

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = "exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ())
        return {"step": 0.0} | {name: torch.zeros_like(parameter) for name in names}

    def _refuse_sparse(self) -> NoReturn:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state, (first, second) = self._counted(parameter, group), group["betas"]
        step = state["step"]
        return _descend(
            parameter, group, state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq"] if group["amsgrad"] else None,
            1 - first, second, 1 - second, (1 - second**step) ** 0.5, group["eps"], rate(parameter, group) / (first**step - 1),
        )  # fmt: skip


@descending
def _descend(
    values: Tensor, grad: Tensor, mean: Tensor, mean_square: Tensor, largest: Tensor | None,
    mean_rate: float, kept: float, square_rate: float, scale: float, eps: float, size: float | Tensor,
) -> None:  # fmt: skip
    """Change a parameter, its two running means and the largest mean square there was."""
    mean.lerp_(grad, mean_rate)
    mean_square.mul_(kept)
    mean_square.add_(grad * grad * square_rate)
    if largest is not None:
        # Autograd saves what is compared.
        before = largest.clone() if torch.is_grad_enabled() else largest
        largest.copy_(torch.maximum(before, mean_square))
    denominator = ((mean_square if largest is None else largest).sqrt() / scale).add_(eps)
    values.add_(mean / denominator * size)
