"""Distances and similarities between vectors."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.functional import normalize as normalize
from webgpu_torch_core.linalg import vector_norm


def clamped_like_constant(values: Tensor, least: float) -> Tensor:
    """Return values not below ``least``, with the gradient of the values themselves everywhere."""
    return values.detach().clamp(min=least) + (values - values.detach())


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 · x2 / (max(|x1|, eps) max(|x2|, eps))`` along ``dim`` of the broadcast operands."""
    kind = torch.result_type(x1, x2)
    if not kind.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind}")
    first, second = torch.broadcast_tensors(x1.to(kind), x2.to(kind))
    first = first / clamped_like_constant(vector_norm(first, 2, dim, True), eps)
    second = second / clamped_like_constant(vector_norm(second, 2, dim, True), eps)
    return (first * second).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """``|x1 - x2 + eps|_p`` over the last dimension."""
    return vector_norm(x1 - x2 + eps, p, max(x1.ndim, x2.ndim) - 1 if max(x1.ndim, x2.ndim) else None, keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """Distances ``|x_i - x_j|_p`` of all pairs i < j of the rows of [n, m], in row-major order of pairs."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    rows = input.shape[0]
    if rows < 2:
        return input.new_zeros((0,))
    if input.shape[1] == 0:
        return input.new_zeros((rows * (rows - 1) // 2,))
    table = vector_norm(input.unsqueeze(1) - input.unsqueeze(0), p, -1)
    pairs = [row * rows + column for row in range(rows) for column in range(row + 1, rows)]
    return table.reshape(-1)[torch.tensor(pairs, device=input.device)]
