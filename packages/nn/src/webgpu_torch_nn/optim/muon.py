"""Muon."""

from __future__ import annotations

import math
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import arguments
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, shrinkage
from webgpu_torch_nn.optim.states import to_scalar


def orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Return a matrix with the singular vectors of another and singular values near 1, in bfloat16.

    Each Newton-Schulz step is ``X = a X + (b G + c G²) X`` with ``G = X Xᵀ`` (Jordan et al., "Muon", 2024).

    Raises:
        ValueError: there are 100 steps or more, or not three coefficients.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    current = matrix.to(torch.bfloat16)
    current = current.T if tall else current
    current = current / torch.linalg.vector_norm(current).clamp(min=eps)
    for _ in range(steps):
        gram = current @ current.T
        update = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        current = torch.addmm(current, update, current, beta=a)
    return current.T if tall else current


def _adjustment(kind: str | None, rows: int, columns: int) -> float:
    return 0.2 * math.sqrt(max(rows, columns)) if kind == "match_rms_adamw" else math.sqrt(max(1, rows / columns))


class Muon(ParameterwiseOptimizer):
    """Momentum whose steps are orthogonalised, for the matrices of hidden layers (Jordan et al., 2024).

    Args:
        params: matrices.
        lr, momentum, nesterov: as in :class:`SGD`, with a running mean for momentum.
        weight_decay: shrinks ``p`` by ``lr * weight_decay``.
        ns_coefficients, ns_steps, eps: of :func:`orthogonalized`.
        adjust_lr_fn: "original" scales the rate by ``sqrt(max(1, rows / columns))``, "match_rms_adamw" by
            ``0.2 sqrt(max(rows, columns))`` (Liu et al., "Muon is Scalable", 2025).

    Raises:
        ValueError: an option is out of range, or a parameter is no matrix.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, arguments(locals()))
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}"
                    )

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": torch.zeros_like(parameter)}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._counted(parameter, group)
        grad: Any = parameter.grad
        mean = state["momentum_buffer"]
        mean.lerp_(grad, (1 - group["momentum"]))
        update = grad.lerp(mean, group["momentum"]) if group["nesterov"] else mean
        update = orthogonalized(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        factor = _adjustment(group["adjust_lr_fn"], *parameter.shape)
        parameter.mul_(shrinkage(parameter, group))
        parameter.add_(update.to(parameter.dtype) * (-to_scalar(group["lr"]) * factor))
