"""Adafactor."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import arguments
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, shrinkage
from webgpu_torch_nn.optim.states import to_scalar


def _mean_square(grad: Tensor, dim: int) -> Tensor:
    return torch.linalg.vector_norm(grad, dim=dim, keepdim=True).square() / grad.size(dim)


def _root_mean_square(values: Tensor) -> Tensor:
    return torch.linalg.vector_norm(values) / values.numel() ** 0.5


class Adafactor(ParameterwiseOptimizer):
    """Adaptive steps whose second moment of a matrix is an outer product of row and column means (Shazeer and Stern, 2018).

    ``p -= max(eps[1], RMS(p)) * min(lr, 1 / sqrt(t)) * u / max(1, RMS(u) / d)`` with ``u = g / max(sqrt(v), eps[0])``;
    the means fade by ``1 - t ** beta2_decay``.

    Args:
        params, lr, beta2_decay, d: as in the formula.
        eps: two floors; the first is the type's spacing at 1 if None.
        weight_decay: shrinks ``p`` by ``lr * weight_decay``.
        foreach: accepted and without effect; the engine fuses the update by itself.
        maximize: climb instead of descending.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a parameter is complex.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, arguments(locals()))

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if parameter.dim() < 2:
            return {"step": 0.0, "variance": torch.zeros_like(parameter)}
        shape = tuple(parameter.shape)
        rows, columns = (*shape[:-1], 1), (*shape[:-2], 1, shape[-1])
        return {"step": 0.0, "row_var": parameter.new_zeros(rows), "col_var": parameter.new_zeros(columns)}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._counted(parameter, group)
        grad: Any = -parameter.grad if group["maximize"] else parameter.grad  # type: ignore[operator]
        floor = torch.finfo(parameter.dtype).eps if group["eps"][0] is None else group["eps"][0]
        share = state["step"] ** group["beta2_decay"]
        size = _root_mean_square(parameter).clamp(min=group["eps"][1])
        size = size * (-min(to_scalar(group["lr"]), state["step"] ** -0.5))
        if group["weight_decay"] != 0:
            parameter.mul_(shrinkage(parameter, group))
        if grad.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(_mean_square(grad, -1), share)
            columns.lerp_(_mean_square(grad, -2), share)
            variance = rows @ columns / rows.mean(dim=-2, keepdim=True).clamp(min=floor)
        else:
            variance = state["variance"].lerp_(grad * grad, share)
        update = variance.clamp(min=floor * floor).rsqrt() * grad
        clipped = (_root_mean_square(update) / group["d"]).clamp(min=1.0)
        parameter.add_(update * (size / clipped))
