"""Losses with margins, for ranking, embeddings and several labels."""

from __future__ import annotations

from collections.abc import Callable

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import logsigmoid
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.operations.common import (
    refuse_halves,
    refuse_types,
    require_castable,
    require_same_types,
    type_title,
)
from webgpu_torch_core.operations.without_derivatives import refuse_gradients
from webgpu_torch_core.replay.recipes import remembered, saves_arguments
from webgpu_torch_core.tensors.type_aliases import Number

from ._arguments import legacy_reduction, narrowed, reduced, require_reduction, wide
from .distance import pairwise_distance


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


@remembered
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``max(0, -y (x1 - x2) + margin)``, reduced; ``y`` is 1 where ``x1`` should be greater, else -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if input1.ndim != input2.ndim or input1.ndim != target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.size()}, "
            f"input2: {input2.size()}, target: {target.size()} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@remembered
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``x`` where ``y`` is 1, ``max(0, margin - x)`` where it is -1, reduced."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    zeros = torch.zeros_like(input.detach())
    far = torch.where(target != 1, (torch.full_like(input.detach(), margin) - input).clamp(min=0), zeros)
    near = torch.where(target != -1, input, zeros)
    return reduced(far + near, reduction)


@titled("SoftMarginLossBackward0")
@remembered
@saves_arguments
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``log(1 + exp(-y x))``, reduced."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    refuse_gradients("soft_margin_loss", target=target)
    require_castable(target.dtype, input.dtype)
    if input.dtype.category < 2:
        require_castable(torch.float32, input.dtype)
    return reduced(torch.log1p((wide(input) * -target.to(input.dtype)).exp()), reduction).to(input.dtype)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | Number | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Mean binary cross entropy of ``sigmoid(x)`` over the classes (last dimension), reduced."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    require_reduction(reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.shape[-1], reduction)


@remembered
@saves_arguments
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``1 - cos`` where ``y`` is 1, ``max(0, cos - margin)`` where it is -1, reduced; vectors [n, d] or [d]."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if target.ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.ndim == 1 and input1.ndim != 2:
        raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with sizes "
                           f"{list(input1.shape)} and {list(input2.shape)}.")  # fmt: skip
    if target.ndim == 0 and input1.ndim != 1:
        raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with sizes "
                           f"{list(input1.shape)} and {list(input2.shape)}.")  # fmt: skip
    kind, tiny = torch.result_type(input1, input2), 1e-12
    input1, input2 = wide(input1), wide(input2)
    squares1 = (input1 * input1).sum(target.ndim) + tiny
    squares2 = (input2 * input2).sum(target.ndim) + tiny
    cosine = (input1 * input2).sum(target.ndim) / (squares1 * squares2).sqrt()
    zeros = torch.zeros_like(cosine.detach())
    near = torch.where(target == 1, 1 - cosine, zeros)
    far = torch.where(target == -1, (cosine - float(margin)).clamp(min=0), zeros)
    return narrowed(reduced(near + far, reduction), kind)


def _require_labels(kernel: str, input: Tensor, target: Tensor) -> None:
    """Refuse scores that are no real numbers of floating point, and labels that are not of int64."""
    refuse_types(kernel, input, 0, 1, 3)
    refuse_halves(kernel, input)
    if target.dtype is not torch.int64:
        raise RuntimeError(f"expected scalar type Long but found {type_title(target)}")


@titled("MultiMarginLossBackward0")
@remembered
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``mean over classes j != y of max(0, margin - x_y + x_j) ** p``, weighted by class ``y``, reduced; [n, c] or [c]."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if input.ndim > 2 or (input.numel() == 0 and (input.ndim == 0 or input.shape[-1] == 0)):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    alone = input.ndim < 2
    rows = input.reshape(1, -1) if alone else input
    if target.ndim > 1 or target.numel() != rows.shape[0]:
        raise RuntimeError(
            "target tensor should be 1-D with size equal to the batch size. Expected target size "
            f"[{rows.shape[0]}], but got {list(target.shape)}"
        )
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if weight is not None and weight.numel() != rows.shape[1]:
        raise RuntimeError(f"inconsistent weight size, expected {rows.shape[1]} but got {list(weight.shape)}")
    refuse_gradients("multi_margin_loss", weight=weight)
    _require_labels("multi_margin_loss_cpu_kernel", input, target)
    require_same_types(input, weight)
    chosen = target.reshape(-1, 1)
    excess = (float(margin) - rows.gather(1, chosen) + rows).clamp(min=0)
    excess = excess if p == 1 else excess * excess
    if weight is not None:
        excess = excess * weight.reshape(-1)[chosen.reshape(-1)].unsqueeze(1)
    others = torch.arange(rows.shape[1], device=rows.device) != chosen
    loss = torch.where(others, excess, torch.zeros_like(excess.detach())).sum(1) / rows.shape[1]
    return reduced(loss.reshape(target.shape) if reduction == "none" and target.ndim == 0 else loss, reduction)


@titled("MultilabelMarginLossBackward0")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``sum over labels y and other classes j of max(0, 1 - x_y + x_j) / c``, reduced; [n, c] or [c].

    ``target`` lists the labels of each row and ends at its first -1.
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    if input.ndim and input.shape[-1] == 0:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    if input.ndim > 2 or target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    _require_labels("multilabel_margin_loss_forward_out_frame", input, target)
    rows, labels = (
        input.reshape(-1, input.shape[-1] if input.ndim else 1),
        target.reshape(-1, *target.shape[-1:] or (1,)),
    )
    if not input.numel():
        return reduced(input.sum(-1), reduction)
    listed = (labels >= 0).to(torch.int64).cumprod(1) > 0
    safe = torch.where(listed, labels, torch.zeros_like(labels))
    counts = torch.zeros_like(labels).scatter_add(1, safe, listed.to(labels.dtype))
    wanted = rows.gather(1, safe)
    excess = (1 - wanted.unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    counted = listed.unsqueeze(2) & (counts == 0).unsqueeze(1)
    loss = torch.where(counted, excess, torch.zeros_like(excess.detach())).sum((1, 2)) / rows.shape[1]
    return reduced(loss.reshape(input.shape[:-1]), reduction)


@remembered
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``max(0, d(a, p) - d(a, n) + margin)`` with p-norm distances, reduced; ``swap`` takes the nearer negative pair."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")

    def distance(first: Tensor, second: Tensor) -> Tensor:
        return pairwise_distance(first, second, p, eps)

    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    loss = _triplet(wide(anchor), wide(positive), wide(negative), distance, margin, swap, reduction)
    return narrowed(loss, torch.promote_types(torch.result_type(anchor, positive), negative.dtype))


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: object = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """:func:`triplet_margin_loss` with any distance (the Euclidean one by default)."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    measured = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, measured, margin, bool(swap), reduction)


def _triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, distance: Callable[[Tensor, Tensor], Tensor], margin: float,
    swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction)
