"""Distances and similarities between vectors."""

from __future__ import annotations

import math

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import normalize as normalize
from webgpu_torch_core.api.linalg import vector_norm
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.operations.common import refuse_halves
from webgpu_torch_core.operations.spatial.sliding_windows import nothing
from webgpu_torch_core.replay.recipes import remembered, saves_arguments

from ._arguments import narrowed, wide


def _clamped_like_constant(values: Tensor, least: float) -> Tensor:
    """Return values not below ``least``, with the gradient of the values themselves everywhere."""
    return values.detach().clamp(min=least) + (values - values.detach())


@remembered
@saves_arguments
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 · x2 / (max(|x1|, eps) max(|x2|, eps))`` along ``dim`` of the broadcast operands."""
    kind = torch.result_type(x1, x2)
    if not kind.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind}")
    first, second = torch.broadcast_tensors(wide(x1.to(kind)), wide(x2.to(kind)))
    first = first / _clamped_like_constant(vector_norm(first, 2, dim, True), eps)
    second = second / _clamped_like_constant(vector_norm(second, 2, dim, True), eps)
    return (first * second).sum(dim).to(kind)


@titled("NormBackward1")
@remembered
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """``|x1 - x2 + eps|_p`` over the last dimension."""
    dim = max(x1.ndim, x2.ndim) - 1 if max(x1.ndim, x2.ndim) else None
    return narrowed(vector_norm(wide(x1) - wide(x2) + eps, p, dim, keepdim), torch.result_type(x1, x2))


@titled("PdistBackward0")
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
        return nothing(input, (0,))
    count = rows * (rows - 1) // 2
    if input.shape[1] == 0:
        return nothing(input, (count,))
    refuse_halves("pdist", input)
    firsts, seconds = torch.triu_indices(rows, rows, 1, device=input.device).unbind(0)
    difference = input.index_select(0, firsts) - input.index_select(0, seconds)
    if p in (0, 1, 2, math.inf):
        return vector_norm(difference, p, -1)
    # Equal rows are at distance 0 with gradient 0, which the power's own gradient would miss.
    same = (difference.detach() == 0).all(-1)
    kept = torch.where(same.unsqueeze(1), torch.ones_like(difference.detach()), difference)
    return torch.where(same, torch.zeros_like(kept.detach()[:, 0]), vector_norm(kept, p, -1))
