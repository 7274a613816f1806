"""Losses of scores against classes."""

from __future__ import annotations

import operator
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import cross_entropy as _cross_entropy
from webgpu_torch_core.api.functional import linear
from webgpu_torch_core.api.functional import nll_loss as _nll_loss
from webgpu_torch_core.dispatch.titles import Named, Positional, titled
from webgpu_torch_core.operations.indexing.index_checks import indicators
from webgpu_torch_core.replay.recipes import remembered

from ._arguments import legacy_reduction, wide


def _title(args: Positional, kwargs: Named) -> str:
    """Return the name of a node: PyTorch has one for images, and writes what is no choice of one class with others."""
    input = args[0] if args else kwargs["input"]
    target = args[1] if len(args) > 1 else kwargs["target"]
    if target.is_floating_point():
        return "DivBackward1"
    if args[7:] or kwargs.get("label_smoothing"):
        return "AddBackward0"
    if input.ndim < 3:
        return "NllLossBackward0"
    # Others than images go as images, whose losses are seen in another shape where none is taken together.
    apart = (args[6] if len(args) > 6 else kwargs.get("reduction")) == "none" and input.ndim != 4
    return "ViewBackward0" if apart else "NllLoss2DBackward0"


@titled(_title)
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``-weight[y] x_y`` for log-probabilities [n, c, …] and classes [n, …], reduced; ``ignore_index`` counts nothing."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)


@titled(_title)
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
        AttributeError: ``options`` is something else.
    """
    if options is not None and not hasattr(options, "acc_policy"):
        raise AttributeError(f"'{type(options).__name__}' object has no attribute 'acc_policy'")
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
    bias = None if linear_bias is None else wide(linear_bias.reshape(-1))
    scores = linear(wide(input), wide(linear_weight.reshape(-1, features)), bias).reshape(shape)
    loss = _cross_entropy(
        scores, wide(target), None if weight is None else wide(weight), reduction=reduction, label_smoothing=label_smoothing,
        ignore_index=-100 if ignore_index is None else ignore_index,
    )  # fmt: skip
    return loss.to(input.dtype)


@remembered
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each element's class, 0 elsewhere, in a new last dimension of ``num_classes`` (or the greatest class + 1)."""
    if tensor.dtype is not torch.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    num_classes = operator.index(num_classes)
    if num_classes == 0 and tensor.numel():
        raise RuntimeError("num_classes should be positive")
    if num_classes < -1:
        raise RuntimeError("num_classes should be positive")
    if num_classes == -1:
        if not tensor.numel():
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max().item()) + 1
        if num_classes < 1:
            raise RuntimeError("Class values must be non-negative.")

    def refusal(found: int) -> Exception:
        return RuntimeError(
            "Class values must be non-negative." if found < 0 else "Class values must be smaller than num_classes."
        )

    return indicators("one_hot", tensor, num_classes, refusal)
