"""Rows of tables looked up, one by one or in bags."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import embedding as _embedding
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.indexing.gathering import write_slices
from webgpu_torch_core.operations.value_checks import require_none
from webgpu_torch_core.record.devices import on_host
from webgpu_torch_core.replay.recipes import remembered

from ._arguments import wide
from .loss_classification import one_hot as one_hot


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of ``weight`` [entries, features] at the integer positions in ``input``.

    The row ``padding_idx`` gets no gradient; ``max_norm`` first scales down, in place, the rows looked up whose norm is
    greater; ``scale_grad_by_freq`` divides gradients by how often their row is looked up.

    Raises:
        AssertionError: ``padding_idx`` outside of the table.
    """
    if padding_idx is not None:
        entries = weight.shape[0]
        if not -entries <= padding_idx < entries:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= entries
    return _embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


def _check_bags(
    input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, scale_grad_by_freq: bool, sparse: bool,
    per_sample_weights: Tensor | None,
) -> None:  # fmt: skip
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same "
            f"shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
            f"However, found offsets of type {type(offsets)}"
        )
    if input.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        _require_bags(offsets, input.numel())
    if not weight.dtype.is_floating_point:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; "
            f"but got {weight.type()} instead (while checking arguments for embedding_bag)"
        )
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but "
            f"type {weight.type()} does not equal {per_sample_weights.type()} (while checking arguments for embedding_bag)"
        )
    if input.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )


def _padding(index: int, entries: int) -> int:
    """Return the row of a table that counts nothing."""
    if not -entries <= index < entries:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{entries} through {entries - 1}, but got {index}"
        )
    return index % entries


def _require_rows(chosen: Tensor, entries: int) -> None:
    """Raise where rows are asked for that a table lacks: at once on the host."""
    if not on_host(chosen.device):
        return
    outside = chosen[(chosen < 0) | (chosen >= entries)]
    if outside.numel():
        raise RuntimeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {int(outside[0])}"
        )


@remembered
def _bag_numbers(offsets: Tensor, count: int) -> Tensor:
    """Return which bag each of ``count`` positions belongs to, bags starting at ``offsets``."""
    starts = torch.zeros(count + 1, dtype=torch.int64, device=offsets.device)
    starts = starts.index_add(0, offsets.to(torch.int64), torch.ones_like(offsets, dtype=torch.int64))
    return starts[:count].cumsum(0) - 1


def _require_bags(offsets: Tensor, length: int) -> None:
    """Raise where bags do not begin at the first position or begin behind the last: at once on the host."""
    begin = "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
    end = f"offsets[-1] can not be greater than input's length {length}"
    if not on_host(offsets.device):
        require_none(offsets[:1] != 0, begin)
        require_none(offsets[-1:] > length, end)
    elif offsets.numel() and int(offsets[0]) != 0:
        raise RuntimeError(begin)
    elif offsets.numel() and int(offsets[-1]) > length:
        raise RuntimeError(end)


@titled("EmbeddingBagBackward0")
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of bags of rows of ``weight``: [bags, features].

    input [bags, length], or [positions] with the bags' first positions in ``offsets``; entries equal to ``padding_idx``
    count nothing; ``per_sample_weights`` scales rows (sums only). Empty bags give zeros.
    """
    if weight.dtype is torch.int64 and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is deprecated, and "
            "should now be `embedding_bag(input, weight, ...)`."
        )
        input, weight = weight, input
    _check_bags(input, weight, offsets, mode, scale_grad_by_freq, sparse, per_sample_weights)
    if padding_idx is not None:
        padding_idx = _padding(padding_idx, weight.shape[0])
    flat = input.reshape(-1)
    if mode == "max" or padding_idx is not None:
        _require_rows(flat, weight.shape[0])
    if offsets is None:
        bags, numbers = input.shape[0], None
    else:
        bags = offsets.shape[0] - (1 if include_last_offset else 0)
        numbers = _bag_numbers(offsets[:bags], flat.shape[0])
    shape = (bags, weight.shape[1])
    if not flat.numel() or not bags:
        nothing = weight.sum() * 0
        if per_sample_weights is not None:
            nothing = nothing + per_sample_weights.sum() * 0
        return weight.new_zeros(shape) + nothing
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    counted = None if padding_idx is None else flat != padding_idx
    if mode == "max":
        return _bag_maxima(rows, numbers, counted, bags)
    kind, rows = rows.dtype, wide(rows)
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights).reshape(-1, 1)
    if counted is not None:
        rows = torch.where(counted.unsqueeze(1), rows, torch.zeros_like(rows.detach()))
    total = _in_bags(rows, numbers, bags)
    if mode == "sum":
        return total.to(kind)
    if numbers is None and counted is None:
        return (total / input.shape[1]).to(kind)
    ones = torch.ones(flat.shape, dtype=rows.dtype, device=weight.device)
    ones = ones if counted is None else counted.to(rows.dtype)
    sizes = _in_bags(ones, numbers, bags)
    return (total / sizes.clamp(min=1).unsqueeze(1)).to(kind)


@remembered
def _in_bags(rows: Tensor, numbers: Tensor | None, bags: int) -> Tensor:
    """Return the sums of rows by the number of their bag; without numbers bags are as long as each other."""
    shape = (bags, *rows.shape[1:])
    if numbers is None:
        return rows.reshape(bags, -1, *rows.shape[1:]).sum(1)
    # They are right by construction.
    return write_slices(rows.detach().new_zeros(shape), 0, numbers, rows, "sum", "index_add")


def _bag_maxima(rows: Tensor, numbers: Tensor | None, counted: Tensor | None, bags: int) -> Tensor:
    """Return the maxima of rows by the number of their bag; without numbers bags are as long as each other.

    The gradient goes to the first row of a bag that has its maximum.
    """
    rows = _counted_rows(rows, counted)
    if numbers is None:
        greatest: Tensor = rows.reshape(bags, -1, rows.shape[1]).max(1)[0]
        empty = None if counted is None else ~counted.reshape(bags, -1).any(1, keepdim=True)
        return greatest if empty is None else greatest.masked_fill(empty, 0)
    first = _first_maxima(rows, numbers, counted, bags)
    chosen = rows.gather(0, first.clamp(max=rows.shape[0] - 1))
    return torch.where(first == rows.shape[0], torch.zeros_like(chosen.detach()), chosen)


def _counted_rows(rows: Tensor, counted: Tensor | None) -> Tensor:
    """Return rows of which those that do not count are below all others."""
    if counted is None:
        return rows
    return torch.where(counted.unsqueeze(1), rows, torch.full_like(rows.detach(), float("-inf")))


def _first_maxima(rows: Tensor, numbers: Tensor, counted: Tensor | None, bags: int) -> Tensor:
    """Return the position of the first row with a bag's maximum, how many rows there are for a bag that has none: [bags, features]."""
    fixed, places = rows.detach(), numbers.unsqueeze(1).expand(rows.shape)
    greatest = fixed.new_full((bags, rows.shape[1]), float("-inf")).scatter_reduce(0, places, fixed, "amax")
    reached = (fixed == greatest.gather(0, places)) | fixed.isnan()
    if counted is not None:
        reached = reached & counted.unsqueeze(1)
    nowhere = rows.shape[0]
    positions = torch.arange(nowhere, device=rows.device).unsqueeze(1)
    candidates = torch.where(reached, positions, nowhere)
    return candidates.new_full((bags, rows.shape[1]), nowhere).scatter_reduce(0, places, candidates, "amin")


def _bag_parts(
    weight: Tensor, indices: Tensor, offsets: Tensor, mode: str, include_last_offset: bool, padding_idx: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what ``torch.embedding_bag`` tells beside the bags: each position's bag, the sizes of bags, rows of maxima.

    As PyTorch's, sizes are zeros for sums and take the place of the rows of maxima where there are none.
    """
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    numbers = _bag_numbers(offsets[:bags], indices.shape[0])
    counted = None if padding_idx is None else indices != _padding(padding_idx, weight.shape[0])
    sizes = torch.zeros(bags, dtype=indices.dtype, device=indices.device)
    if mode == "sum":
        return numbers.to(indices.dtype) if counted is not None else indices.new_empty((0,)), sizes, sizes.clone()
    sizes = _in_bags(torch.ones_like(indices) if counted is None else counted.to(indices.dtype), numbers, bags)
    if mode == "mean" or not indices.numel():
        return numbers.to(indices.dtype), sizes, sizes.clone()
    rows = _counted_rows(weight.detach()[indices.to(torch.int64)], counted)
    first = _first_maxima(rows, numbers, counted, bags)
    chosen = indices[first.clamp(max=indices.shape[0] - 1)]
    return numbers.to(indices.dtype), sizes, chosen.masked_fill(first == indices.shape[0], 0)
