"""Losses of numbers against numbers: regression, probabilities, likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import binary_cross_entropy_with_logits as _with_logits
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.common import (
    dtype_title,
    refuse_types,
    require_castable,
    type_title,
    with_gradient_in,
)
from webgpu_torch_core.operations.neural.losses import weighing
from webgpu_torch_core.operations.value_checks import improbable, refuse_any, require_none
from webgpu_torch_core.operations.without_derivatives import refuse_gradients
from webgpu_torch_core.replay.recipes import remembered, saves_arguments

from ._arguments import legacy_reduction, narrowed, reduced, require_reduction, wide


def _of_one_size(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in the shape that they broadcast to, which counts a number in a tensor as much as another element's type."""
    if target.shape == input.shape:
        return input, target
    warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
    )
    one, other = torch.broadcast_tensors(input, target)
    return one, other


def _refuse_others(kernel: str, input: Tensor, target: Tensor) -> None:
    """Refuse pairs that are no real numbers of floating point, as PyTorch's kernels do."""
    kind = torch.result_type(input, target)
    if not kind.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_title(kind)}'")


def _weighted(loss: Tensor, weight: Tensor | None, input: Tensor, reduction: str, by_weight: bool) -> Tensor:
    """Reduce a loss, weighted element by element where asked; ``by_weight`` makes the mean one over the weights' sum."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")
    if reduction == "mean" and by_weight:
        return (loss * weight).sum() / weight.sum()
    return reduced(loss * weight, reduction)


@titled("MseLossBackward0")
@remembered
def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``(x - y)²``, reduced; the mean is over the weights where given."""
    input, target = _of_one_size(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    _refuse_others("mse_cpu", input, target)
    if input.dtype is not target.dtype:
        kind = torch.result_type(input, target)
        input, target = input.to(kind), target.to(kind)
    # PyTorch's kernel writes row-major gradients, whatever arrives.
    one, other = (
        each if each.is_contiguous() else with_gradient_in(each, torch.contiguous_format) for each in (input, target)
    )
    difference = one - other
    return _weighted(difference * difference, weight, input, reduction, True)


@remembered
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``|x - y|``, reduced; the mean is over the weights where given."""
    input, target = _of_one_size(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _weighted((input - target).abs(), weight, input, reduction, True)


def _quadratic(difference: Tensor, limit: float, factor: float, far: Tensor) -> Tensor:
    """Return ``factor * difference²`` below a limit and ``far`` from there on, where an infinite square leaves no gradient."""
    beyond = difference.detach() >= limit
    near = difference.masked_fill(beyond, 0.0)
    return torch.where(beyond, far, near * near * factor)


@titled("SmoothL1LossBackward0")
@remembered
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """``(x - y)² / (2 beta)`` where ``|x - y| < beta``, ``|x - y| - beta / 2`` elsewhere, reduced (Girshick, 2015)."""
    input, target = _of_one_size(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    _refuse_others("smooth_l1_cpu", input, target)
    kind = torch.result_type(input, target)
    difference = (wide(input.to(kind)) - wide(target.to(kind))).abs()
    if beta == 0:
        return narrowed(reduced(difference, reduction), kind)
    loss = _quadratic(difference, beta, 0.5 / beta, difference - 0.5 * beta)
    return narrowed(reduced(loss, reduction), kind)


@titled("HuberLossBackward0")
@remembered
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """``(x - y)² / 2`` where ``|x - y| < delta``, ``delta (|x - y| - delta / 2)`` elsewhere, reduced (Huber, 1964)."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    input, target = _of_one_size(input, target)
    _refuse_others("huber_cpu", input, target)
    kind = torch.result_type(input, target)
    require_castable(kind, input.dtype)
    difference = (wide(input.to(kind)) - wide(target.to(kind))).abs()
    loss = _quadratic(difference, delta, 0.5, (difference - 0.5 * delta) * delta)
    return _weighted(loss, weight, input, reduction, False).to(input.dtype)


@titled("BinaryCrossEntropyBackward0")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``-(y log x + (1 - y) log(1 - x))``, logarithms limited to -100, reduced; probabilities in, same shapes.

    Raises:
        ValueError: other shapes.
        RuntimeError: other types, or elements outside of [0, 1], which is told at once on the host and with the next reading of results elsewhere.
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {type_title(target)} but expected {type_title(input)}")
    refuse_gradients("binary_cross_entropy", weight=weight)
    refuse_types("binary_cross_entropy", input, 0, 1, 3)
    if weight is not None:
        require_castable(weight.dtype, input.dtype)
    for name, each in (("input", input.detach()), ("target", target.detach())):
        refuse_any(improbable(each), f"all elements of {name} should be between 0 and 1")
    single, wanted = wide(input), wide(target)
    loss = (wanted - 1) * torch.log1p(-single).clamp(min=-100) - wanted * single.log().clamp(min=-100)
    return reduced(loss if weight is None else loss * weighing(weight, loss), reduction).to(input.dtype)


@titled("BinaryCrossEntropyWithLogitsBackward0")
@remembered
@saves_arguments
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Binary cross entropy of ``sigmoid(x)``, without overflow, reduced; ``pos_weight`` weights positive targets."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    # PyTorch multiplies in place what it makes of the targets: the loss is of their type.
    require_castable(torch.result_type(input, target), target.dtype)
    if weight is not None:
        require_castable(weight.dtype, target.dtype)
    loss = _with_logits(wide(input), wide(target), weight, reduction=reduction, pos_weight=pos_weight)
    return loss.to(target.dtype)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:  # fmt: skip
    """``y (log y - x)`` for log-probabilities ``x``, reduced (also by "batchmean": sum over the first dimension).

    Raises:
        RuntimeError: something is not of floating-point numbers.
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides only by "
            "the batch size, and aligns with the KL div math definition."
        )
    kinds = input.dtype, target.dtype
    if any(each.is_complex for each in kinds):
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if not all(each.is_floating_point for each in kinds):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    kind, input, target = torch.result_type(input, target), wide(input), wide(target)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = torch.xlogy(target, target) - target * input
    if reduction == "batchmean":
        loss = loss.sum() / input.shape[0] if input.ndim else loss.sum()
        return narrowed(loss, kind)
    return narrowed(reduced(loss, reduction), kind)


@remembered
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``exp(x) - y x`` (or ``x - y log(x + eps)`` without ``log_input``), with Stirling's term where ``full``, reduced."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    require_reduction(reduction)
    kind, input, target = torch.result_type(input, target), wide(input), wide(target)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + (target * (2 * math.pi)).log() * 0.5
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return narrowed(reduced(loss, reduction), kind)


def _one_broadcast(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether the shapes differ in one size alone, which is 1 in the other."""
    return sum(size for want, size in zip(shape, other) if want != size) == 1


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: object = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """``(log v + (x - y)² / v) / 2`` with ``v = max(var, eps)``, plus ``log(2 pi) / 2`` where ``full``, reduced.

    ``var`` has the input's shape, lacks its last dimension or has 1 for one of its sizes.

    Raises:
        ValueError: a negative variance; in a tensor, when results are read next.
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = torch.full_like(input.detach(), var)
    else:
        require_none(var.detach() < 0, "var has negative entry/entries", ValueError)
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.ndim == var.ndim and _one_broadcast(input.shape, var.shape)):
            raise ValueError("var is of incorrect size")
    require_reduction(reduction)
    # PyTorch stores the limited variances where the given ones were.
    require_castable(torch.float32, var.dtype)
    # The limit carries no gradient: the gradient is the variance's own everywhere.
    kind, var = torch.promote_types(torch.result_type(input, target), var.dtype), wide(var)
    limited = var.detach().clamp(min=eps) + (var - var.detach())
    difference = wide(input) - wide(target)
    loss = (limited.log() + difference * difference / limited) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return narrowed(reduced(loss, reduction), kind)
