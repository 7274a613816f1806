"""RAdam."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import real_view
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, count, gradient, options, rate


def _length(step: float, beta2: float) -> float:
    """Return the length of the approximated simple moving average after so many steps."""
    return 2 / (1 - beta2) - 1 - 2 * step * beta2**step / (1 - beta2**step)


def _rectification(step: float, beta2: float) -> float:
    """Return the factor that evens out the variance of the adaptive learning rate, with the bias correction."""
    final, length = 2 / (1 - beta2) - 1, _length(step, beta2)
    ratio = (length - 4) * (length - 2) * final / ((final - 4) * (final - 2) * length)
    return ratio**0.5 * (1 - beta2**step) ** 0.5


_ORDER = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"


class RAdam(ParameterwiseOptimizer):
    """Adam whose first steps, too few to know the variance, are plain momentum (Liu et al., 2019).

    ``p -= lr * m̂ * r / (sqrt(v) + eps)`` once the moving average's length exceeds 5, ``p -= lr * m̂`` before.

    Args:
        params, lr, betas, eps: as in the formula; ``m̂`` and ``v`` are :class:`Adam`'s, ``r`` is the rectification.
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
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options(locals(), _ORDER))

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._state_of(parameter, group)
        count(state)
        values, grad = gradient(parameter, group)
        mean, squares = real_view(state["exp_avg"]), real_view(state["exp_avg_sq"])
        mean.lerp_(grad, (1 - group["betas"][0]))
        squares.mul_(group["betas"][1]).add_(grad * grad * (1 - group["betas"][1]))
        size = -rate(group) / (1 - group["betas"][0] ** state["step"])
        if _length(state["step"], group["betas"][1]) > 5:
            factor = _rectification(state["step"], group["betas"][1])
            values.add_(mean * size * factor / (squares.sqrt() + group["eps"]))
        else:
            values.add_(mean * size)
