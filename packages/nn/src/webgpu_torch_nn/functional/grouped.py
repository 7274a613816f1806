"""Products of groups of rows, each with a matrix of its own: what mixtures of experts compute."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.devices import on_host

#: up to so many rows each takes its own copy of its matrix, and nobody asks the device where the groups end
FEW_ROWS = 64


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """``mat_a[group] @ mat_b[group]`` for each group, as :func:`torch.nn.functional.grouped_mm`.

    Args:
        mat_a: ``(S, K)`` with groups of rows, ``(M, K)`` with groups along K, or ``(G, M, K)``.
        mat_b: ``(G, K, N)``, ``(K, N)`` with groups along N or K, respectively.
        offs: int32 ``(G,)``, where each group ends; needed if an operand has two dimensions.
        bias: ``(G, N)`` added to the rows of each group.
        out_dtype: the result's type; the operands' if None.

    Returns:
        ``(S, N)``, ``(G, M, N)``; ``(M, S)`` for groups along N. Rows after the last group are zero.

    Raises:
        ValueError: ``offs`` is missing, or given where both operands have three dimensions.

    A large product on a GPU reads ``offs`` and so waits for the device; one of at most 64 rows does not.
    """
    if (offs is None) != (mat_a.ndim == 3 and mat_b.ndim == 3):
        raise ValueError(f"offs is for an operand of two dimensions: got {mat_a.ndim} and {mat_b.ndim}, offs {offs}")
    if offs is None:
        result = torch.bmm(mat_a, mat_b)
    elif mat_a.ndim == 2 and mat_b.ndim == 3:
        if len(mat_a) <= FEW_ROWS and not on_host(mat_a.device):
            result = _by_row(mat_a, mat_b, offs)
        else:
            result = _rows(mat_a, mat_b, offs.tolist())
    elif mat_a.ndim == 3:
        result = _rows(mat_b.transpose(0, 1), mat_a.transpose(1, 2), offs.tolist()).transpose(0, 1)
    else:
        result = _inner(mat_a, mat_b, offs.tolist())
    if bias is not None:
        result = result + (bias[_groups(mat_a, offs, len(bias))] if offs is not None else bias.unsqueeze(1))
    return result if out_dtype is None else result.to(out_dtype)


def _groups(rows: Tensor, offs: Tensor, count: int) -> Tensor:
    places = torch.arange(len(rows), device=offs.device, dtype=offs.dtype)
    return torch.searchsorted(offs, places, right=True).clamp(max=count - 1)


def _by_row(rows: Tensor, matrices: Tensor, offs: Tensor) -> Tensor:
    chosen = matrices[_groups(rows, offs, len(matrices))]
    result = torch.bmm(rows.unsqueeze(1), chosen).squeeze(1)
    inside = torch.arange(len(rows), device=offs.device, dtype=offs.dtype) < offs[-1]
    return torch.where(inside.unsqueeze(1), result, torch.zeros_like(result))


def _rows(rows: Tensor, matrices: Tensor, ends: list[int]) -> Tensor:
    starts = [0, *ends[:-1]]
    parts = [rows[start:end] @ matrix for start, end, matrix in zip(starts, ends, matrices, strict=True) if end > start]
    left = len(rows) - (ends[-1] if ends else 0)
    if left or not parts:
        parts.append(rows.new_zeros(left, matrices.shape[-1]))
    return torch.cat(parts)


def _inner(left: Tensor, right: Tensor, ends: list[int]) -> Tensor:
    starts = [0, *ends[:-1]]
    return torch.stack([left[:, start:end] @ right[start:end] for start, end in zip(starts, ends, strict=True)])
