"""Losses of scores against classes, and of sequences without alignment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.functional import cross_entropy as _cross_entropy
from webgpu_torch_core.functional import linear
from webgpu_torch_core.functional import nll_loss as _nll_loss
from webgpu_torch_core.ops.titles import titled

from ._arguments import legacy_reduction, wide


@titled("NllLossBackward0")
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``-weight[y] x_y`` for log-probabilities [n, c, …] and classes [n, …], reduced; ``ignore_index`` counts nothing."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)


@titled("NllLossBackward0")
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """``-log_softmax(x)`` at classes [n, …] (or against probabilities [n, c, …]) for scores [n, c, …], reduced."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:  # fmt: skip
    """Cross entropy of ``linear(x, linear_weight, linear_bias)``; input [n, f] or [f], weight [c, …, f].

    ``options`` tunes how PyTorch cuts the batch; the result does not depend on it.

    Raises:
        RuntimeError: shapes that do not fit, or ``ignore_index`` with probabilities.
    """
    del options
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    classes, *extra, features = linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {features}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *extra):
        raise RuntimeError(f"expected linear_bias shape {(classes, *extra)}, got {tuple(linear_bias.shape)}")
    if extra and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {features}), got unbatched input with shape {tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], classes, *extra)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    scores = linear(input, linear_weight.reshape(-1, features), bias).reshape(shape)
    return _cross_entropy(
        scores, target, weight, ignore_index=-100 if ignore_index is None else ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


# Connectionist temporal classification


def _lengths(given: Tensor | Sequence[int], like: Tensor, count: int, name: str) -> Tensor:
    found = given if isinstance(given, Tensor) else torch.tensor(list(given), dtype=torch.int64)
    found = found.to(device=like.device, dtype=torch.int64).reshape(-1)
    if found.shape[0] != count:
        raise RuntimeError(f"{name} must be of size batch_size")
    return found


def _padded_targets(targets: Tensor, lengths: Tensor, given: Tensor | Sequence[int], count: int) -> Tensor:
    """Return targets as [n, longest]: from rows, or from one after another in one dimension."""
    if targets.ndim == 2:
        return targets
    numbers = given.reshape(-1).tolist() if isinstance(given, Tensor) else list(given)
    longest = max(numbers, default=0)
    if longest == 0:
        return targets.new_zeros((count, 0))
    starts = (lengths.cumsum(0) - lengths).unsqueeze(1)
    places = starts + torch.arange(longest, device=targets.device)
    return targets[places.clamp(max=max(targets.numel() - 1, 0))]


def _log_add(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """Return ``log(exp(a) + exp(b) + exp(c))``, -inf (with zero gradient) where all are."""
    top = torch.maximum(torch.maximum(first, second), third).detach()
    top = torch.where(top == -math.inf, torch.zeros_like(top), top)
    total = (first - top).exp() + (second - top).exp() + (third - top).exp()
    nothing = total == 0
    return torch.where(
        nothing, torch.full_like(total.detach(), -math.inf), (total + nothing.to(total.dtype)).log() + top
    )


def _forward_variables(log_probs: Tensor, labels: Tensor, input_lengths: Tensor, blank: int) -> Tensor:
    """Return the log-probability [n, 2 s + 1] of all paths that end in each state after each row's last frame."""
    frames, count, _ = log_probs.shape
    states = 2 * labels.shape[1] + 1
    # States alternate between blanks and labels: blank, y1, blank, y2, …, blank.
    extended = torch.full((count, states), blank, dtype=torch.int64, device=log_probs.device)
    if labels.shape[1]:
        extended[:, 1::2] = labels
    emitted = log_probs.gather(2, extended.unsqueeze(0).expand(frames, count, states))
    places = torch.arange(states, device=log_probs.device)
    never = log_probs.new_full((count, 2), -math.inf)
    jumps = (places % 2 == 1) & (places >= 2)
    if states > 2:
        earlier = torch.cat([extended[:, :2], extended[:, :-2]], 1)
        jumps = jumps & (extended != earlier)
    alpha = torch.where(places < 2, emitted[0], torch.full_like(emitted[0].detach(), -math.inf))
    for frame in range(1, frames):
        one_back = torch.cat([never[:, :1], alpha[:, :-1]], 1)
        two_back = torch.cat([never, alpha[:, :-2]], 1) if states > 1 else torch.full_like(alpha.detach(), -math.inf)
        two_back = torch.where(jumps, two_back, torch.full_like(two_back.detach(), -math.inf))
        moved = _log_add(alpha, one_back, two_back) + emitted[frame]
        alpha = torch.where((input_lengths > frame).unsqueeze(1), moved, alpha)
    return alpha


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int],
    blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """The negative log-likelihood of label sequences without alignment (Graves et al., 2006).

    log_probs [t, n, c] or [t, c]; targets [n, s] or all labels one after another; ``mean`` divides by the target lengths.
    """
    if log_probs.ndim == 2:
        loss = ctc_loss(
            log_probs.unsqueeze(1), targets if targets.ndim == 2 else targets.unsqueeze(0), input_lengths, target_lengths,
            blank, reduction, zero_infinity,
        )  # fmt: skip
        return loss.squeeze(0) if reduction == "none" else loss
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be in label range")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    count = log_probs.shape[1]
    frames = _lengths(input_lengths, log_probs, count, "input_lengths")
    sizes = _lengths(target_lengths, log_probs, count, "target_lengths")
    labels = _padded_targets(targets.to(torch.int64), sizes, target_lengths, count)
    inside = torch.arange(labels.shape[1], device=labels.device) < sizes.unsqueeze(1)
    labels = torch.where(inside, labels, torch.full_like(labels, blank))
    alpha = _forward_variables(wide(log_probs), labels, frames, blank)
    last = (2 * sizes).unsqueeze(1)
    final = alpha.gather(1, last)
    before = alpha.gather(1, (last - 1).clamp(min=0))
    before = torch.where(last > 0, before, torch.full_like(before.detach(), -math.inf))
    loss = -_log_add(final, before, torch.full_like(final.detach(), -math.inf)).squeeze(1)
    # A row without frames: certain for no labels, impossible for any.
    nothing = torch.where(sizes == 0, torch.zeros_like(loss.detach()), torch.full_like(loss.detach(), math.inf))
    loss = torch.where(frames == 0, nothing, loss)
    # PyTorch's gradient is that of normalised frames: it adds the probabilities, which log_softmax then takes away.
    counted = torch.arange(log_probs.shape[0], device=frames.device).unsqueeze(1) < frames
    total = (wide(log_probs).exp().sum(2) * counted.to(loss.dtype)).sum(0)
    loss = (loss + (total - total.detach())).to(log_probs.dtype)
    if zero_infinity:
        loss = torch.where(loss == math.inf, torch.zeros_like(loss.detach()), loss)
    if reduction == "mean":
        return (loss / sizes.clamp(min=1).to(loss.dtype)).mean()
    return loss.sum() if reduction == "sum" else loss


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each element's class, 0 elsewhere, in a new last dimension of ``num_classes`` (or the greatest class + 1)."""
    if tensor.dtype is not torch.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == 0 and tensor.numel():
        raise RuntimeError("num_classes should be positive")
    if num_classes < -1:
        raise RuntimeError("num_classes should be positive")
    if num_classes == -1:
        if not tensor.numel():
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max().item()) + 1
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).to(torch.int64)
