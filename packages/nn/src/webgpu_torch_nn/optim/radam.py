"""RAdam."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options, rate


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

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state, (first, second) = self._counted(parameter, group), group["betas"]
        rectifies = _length(state["step"], second) > 5
        return _descend(
            parameter, group, state["exp_avg"], state["exp_avg_sq"], 1 - first, second, 1 - second,
            rate(parameter, group) / (first ** state["step"] - 1),
            _rectification(state["step"], second) if rectifies else None, group["eps"] if rectifies else None,
        )  # fmt: skip


@descending
def _descend(
    values: Tensor, grad: Tensor, mean: Tensor, squares: Tensor, mean_rate: float, kept: float, square_rate: float,
    size: float | Tensor, factor: float | None, eps: float | None,
) -> None:  # fmt: skip
    """Change a parameter, its gradient's running mean and that of the square, which counts where there is a factor."""
    mean.lerp_(grad, mean_rate)
    squares.mul_(kept).add_(grad * grad * square_rate)
    step = mean * size
    values.add_(step if factor is None else step * factor / (squares.sqrt() + eps))
