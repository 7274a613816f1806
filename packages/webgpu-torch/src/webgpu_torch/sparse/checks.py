"""Whether the parts of a compressed sparse tensor fit together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor, layout

from .compressed import CompressedTensor
from .layouts import sparse_bsc, sparse_bsr, sparse_csr


def compressed(
    pointers: Tensor, places: Tensor, values: Tensor, size: Sequence[int] | None, kind: layout
) -> CompressedTensor:
    """Return the tensor of pointers ``[*batch, lines + 1]``, places ``[*batch, n]`` and values, once they are checked.

    Raises:
        RuntimeError: they do not fit together.
    """
    by_rows, blocked = kind in (sparse_csr, sparse_bsr), kind in (sparse_bsr, sparse_bsc)
    one, other = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
    for name, each in ((one, pointers), (other, places)):
        if each.dtype not in (torch.int32, torch.int64):
            raise RuntimeError(f"{name} must be an int32 or int64 tensor, but got: {each.dtype}")
        if each.dim() < 1:
            raise RuntimeError(f"{name} must have dimensionality >= 1 but got {each.dim()}")
    if pointers.dtype is not places.dtype:
        raise RuntimeError(f"{one} and {other} must have the same dtype, but got {pointers.dtype} and {places.dtype}")
    batch = tuple(pointers.shape[:-1])
    start = len(batch)
    if tuple(places.shape[:-1]) != batch or tuple(values.shape[:start]) != batch:
        raise RuntimeError(f"all batch dimensions of {one} (={batch}), {other} and values must be equal")
    if values.dim() < start + 1 + 2 * blocked:
        raise RuntimeError(f"values must have dimensionality > {start + 2 * blocked} but got {values.dim()}")
    count = values.shape[start]
    if places.shape[-1] != count:
        raise RuntimeError(
            f"{other}.shape[-1] must be equal to nnz (={count}) as defined by values.shape[{start}], but got {places.shape[-1]}"
        )
    block = tuple(values.shape[start + 1 : start + 3]) if blocked else (1, 1)
    highest = int(places.max()) + 1 if places.numel() else 0
    lines = pointers.shape[-1] - 1
    if size is None:
        counts = (lines, highest) if by_rows else (highest, lines)
        inner = values.shape[start + 1 + 2 * blocked :]
        size = [*batch, *(each * extent for each, extent in zip(counts, block, strict=True)), *inner]
    inner = values.dim() - start - 1 - 2 * blocked
    _check(pointers, places, tuple(size), inner, block, by_rows, (one, other))
    return CompressedTensor.make(pointers, places, values, size, kind)


def _check(
    pointers: Tensor, places: Tensor, size: tuple[int, ...], inner: int, block: tuple[int, ...], by_rows: bool,
    names: tuple[str, str],
) -> None:  # fmt: skip
    """Check sizes and numbers.

    Raises:
        RuntimeError: something does not fit.
    """
    (one, other), start = names, pointers.dim() - 1
    if len(size) != start + 2 + inner or tuple(size[:start]) != tuple(pointers.shape[:-1]):
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities, but got size {size}"
        )
    if any(each % extent for each, extent in zip(size[start : start + 2], block, strict=True) if extent):
        raise RuntimeError(f"tensor shape {size} must be divisible by the blocksize {block}")
    counts = [each // max(extent, 1) for each, extent in zip(size[start : start + 2], block, strict=True)]
    lines, several = counts if by_rows else counts[::-1]
    if pointers.shape[-1] != lines + 1:
        raise RuntimeError(
            f"{one}.shape[-1] must be equal to the number of {'rows' if by_rows else 'columns'} + 1 (={lines + 1}), but got {pointers.shape[-1]}"
        )
    limit = "ncols" if by_rows else "nrows"
    if math.prod(pointers.shape[:-1]) == 0:
        return
    steps = pointers[..., 1:] - pointers[..., :-1]
    count = places.shape[-1]
    for fits, text in (
        ((pointers[..., 0] == 0).all(), f"`{one}[..., 0] == 0`"),
        ((pointers[..., -1] == count).all(), f"`{one}[..., -1] == nnz`"),
        (((places >= 0) & (places < several)).all(), f"`0 <= {other} < {limit}`"),
        (((steps >= 0) & (steps <= several)).all(), f"`0 <= {one}[..., 1:] - {one}[..., :-1] <= {limit}`"),
    ):
        if not bool(fits):
            raise RuntimeError(f"{text} is not satisfied.")
    flat = steps.reshape(-1).to(torch.int64)
    line = torch.arange(len(flat), device=flat.device).repeat_interleave(flat)
    keys = line * several + places.reshape(-1).to(torch.int64)
    if not bool((keys[1:] > keys[:-1]).all()):
        raise RuntimeError(
            f"`{other}[..., {one}[..., i - 1]:{one}[..., i]] for all i = 1, ..., {'nrows' if by_rows else 'ncols'} are sorted and "
            "distinct along the last dimension values` is not satisfied."
        )
