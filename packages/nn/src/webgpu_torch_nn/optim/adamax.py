"""Adamax."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options, rate


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

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state, (first, second) = self._counted(parameter, group), group["betas"]
        size = rate(parameter, group) / (first ** state["step"] - 1)
        return _descend(parameter, group, state["exp_avg"], state["exp_inf"], size, 1 - first, second, group["eps"])


@descending
def _descend(
    values: Tensor, grad: Tensor, mean: Tensor, largest: Tensor,
    size: float | Tensor, new: float, kept: float, eps: float,
) -> None:  # fmt: skip
    """Change a parameter, the gradient's running mean and its fading maximum."""
    mean.lerp_(grad, new)
    largest.copy_(torch.maximum(largest * kept, grad.abs() + eps))
    values.add_(mean / largest * size)
