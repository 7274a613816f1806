"""Losses of scores against classes, as ``torch.nn.functional`` has them; the others are composed in the nn package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.registry import operation
from ...ir.dtypes import float32, int64, uint8
from ...ir.layouts import broadcast_shapes as common_shape
from ...replay.recipes import remembered, saves_arguments
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import attach, needs_gradient, refuse_types, require_same_types, type_title
from ..creation.ranges import arange
from ..elementwise.choosing import where
from ..elementwise.overloads import clamp, masked_fill
from ..indexing.gathering import gather_known, take_positions
from ..indexing.index_checks import positions_inside
from ..reduction.reductions import mean, sum
from ..without_derivatives import refuse_gradients
from .layers import log_softmax, softmax
from .row_kernels import log_softmax_at


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return mean(loss)
    if reduction == "sum":
        return sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _check_classes(input: Tensor, target: Tensor, classes: int) -> None:
    """Refuse targets that are no class of every score, in PyTorch's words."""
    shape, given = tuple(input._layout.shape), tuple(target._layout.shape)
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if classes and shape[:1] != given[:1]:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({given[0] if given else 0})."
        )
    expected = shape[:classes] + shape[classes + 1 :]
    if len(shape) < 3 and len(given) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not classes and given:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {given[0]}")
    if len(shape) == 4 and len(given) != 3:
        raise RuntimeError(
            f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {len(given)}"
        )
    if given != expected and len(shape) == 4:
        raise RuntimeError(f"size mismatch (got input: {list(shape)} , target: {list(given)}")
    if given != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(given)}")
    if target.dtype not in (int64, uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {type_title(target)}")


def _check_target(input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    classes = 0 if input.ndim == 1 else 1
    refuse_gradients("nll_loss_forward" if input.ndim < 3 else "nll_loss2d_forward", weight=weight)
    _check_classes(input, target, classes)
    _check_weight(weight, input, classes)
    refuse_types("nll_loss_out_frame", input, 0, 1, 3)
    require_same_types(input, weight)


def _check_weight(weight: Tensor | None, input: Tensor, classes: int, function: str = "") -> None:
    count = input._layout.shape[classes]
    if weight is not None and tuple(weight._layout.shape) != (count,):
        raise RuntimeError(
            f"{function}weight tensor should be defined either for all {count} classes or no classes but got weight "
            f"tensor of shape: {list(weight._layout.shape)}"
        )


def _check_soft_target(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, classes: int) -> None:
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {type_title(target)}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    _check_weight(weight, input, classes, "cross_entropy: ")


@operation("composite", namespace="functional", method=False)
@remembered
@saves_arguments
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``-weight[target] * input[target]`` over classes in dimension 1, reduced; ``ignore_index`` counts nothing."""
    classes = 0 if input.ndim == 1 else 1
    if input.ndim == 1 and target._layout.shape == (1,):
        target = target.reshape(())
    _check_target(input, target, weight)

    def pick(safe: Tensor) -> Tensor:
        return gather_known(input, classes, safe.unsqueeze(classes)).squeeze(classes)

    return _loss_of_picked(pick, input, target, weight, ignore_index, reduction)


def _loss_of_picked(
    pick: Callable[[Tensor], Tensor],
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
) -> Tensor:
    """Return the weighted and reduced loss, where ``pick`` gives log-probabilities at int64 classes."""
    count = input._layout.shape[0 if input.ndim == 1 else 1]
    safe = positions_inside(
        "nll_loss", target, count, lambda found: IndexError(f"Target {found} is out of bounds."), ignored=ignore_index
    )
    picked = pick(safe)
    ignored = target == ignore_index
    factor = (~ignored).to(input.dtype)
    if weight is not None:
        factor = factor * take_positions(weight, 0, safe, "IndexBackward0")
    loss = -masked_fill(picked * factor, ignored, 0.0)
    if reduction == "mean":
        return sum(loss) / sum(factor)
    return _reduced(loss, reduction)


def _scores_rows(input: Tensor) -> bool:
    """Return whether the loss of scores is computed without storing their log-softmax.

    16-bit scores keep the steps in which autocast changes types; batched tensors and other classes the steps they have rules for.
    """
    return type(input) is Tensor and input.dtype is float32 and input.ndim > 1 and input.numel() > 0


def _log_softmax_at(input: Tensor, classes: Tensor) -> Tensor:
    """Return the log-softmax of scores along dimension 1 at one class of each; what gradients need is computed again."""
    result = log_softmax_at(input.detach(), 1, classes)
    if needs_gradient(input):
        saved, kept = input._save(), classes._save()

        def run_backward(grad: Tensor) -> Tensor:
            scores, seeds = saved.unpack(), grad.unsqueeze(1)
            count = scores._layout.shape[1]
            numbers = arange(count, device=scores.device).reshape((count,) + (1,) * (scores.ndim - 2))
            chosen = numbers == kept.unpack().unsqueeze(1)
            return where(chosen, seeds, 0.0) - softmax(scores, 1) * seeds

        attach(result, "LogSoftmaxBackward0", (input,), run_backward)
    return result


@operation("composite", namespace="functional", method=False)
@remembered
@saves_arguments
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``-log_softmax(input)`` at the target class (or against target probabilities), reduced."""
    classes = 0 if input.ndim == 1 else 1
    soft = input._layout.shape == target._layout.shape and input.ndim > 0
    if soft:
        _check_soft_target(input, target, weight, ignore_index, classes)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if input.ndim == 1 and not soft and target._layout.shape == (1,):
        target = target.reshape(())
    if not (soft or label_smoothing) and _scores_rows(input):
        _check_target(input, target, weight)

        def pick(safe: Tensor) -> Tensor:
            return _log_softmax_at(input, safe)

        return _loss_of_picked(pick, input, target, weight, ignore_index, reduction)
    scores = log_softmax(input, classes)
    if soft:
        return _soft_cross_entropy(scores, target, weight, reduction, label_smoothing, classes)
    loss = nll_loss(scores, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    spread = scores if weight is None else scores * weight.reshape((-1,) + (1,) * (input.ndim - 1 - classes))
    smooth = masked_fill(-sum(spread, classes), target == ignore_index, 0.0)
    if reduction == "mean":
        counted = (target != ignore_index).to(input.dtype)
        if weight is not None:
            counted = counted * take_positions(weight, 0, clamp(target, min=0), "IndexBackward0")
        smooth = sum(smooth) / sum(counted)
    else:
        smooth = _reduced(smooth, reduction)
    return (1.0 - label_smoothing) * loss + label_smoothing / input.shape[classes] * smooth


def _soft_cross_entropy(
    scores: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: float, classes: int
) -> Tensor:
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / scores.shape[classes]
    if weight is not None:
        scores = scores * weight.reshape((-1,) + (1,) * (scores.ndim - 1 - classes))
    loss = -sum(scores * target, classes)
    if reduction == "mean":
        return sum(loss) / float(max(loss.numel(), 1))
    return _reduced(loss, reduction)


def weighing(weight: Tensor, loss: Tensor) -> Tensor:
    """Return weights of elements.

    Raises:
        RuntimeError: there are more of them than elements.
    """
    whole = common_shape(weight._layout.shape, loss._layout.shape)
    if whole != tuple(loss._layout.shape):
        raise RuntimeError(f"output with shape {list(loss.shape)} doesn't match the broadcast shape {list(whole)}")
    return weight


@operation("composite", namespace="functional", method=False)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of logits, reduced, without overflow."""
    if target._layout.shape != input._layout.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    refuse_gradients("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    # -(w t log s(x) + (1 - t) log s(-x)) with log s(-x) = log s(x) - x; a target and one less of it are no small number in between.
    log = e.logsigmoid(input)
    if pos_weight is not None:
        log = ((weighing(pos_weight, target) - 1.0) * target + 1.0) * log
    loss = (1.0 - target) * input - log
    return _reduced(loss if weight is None else loss * weighing(weight, loss), reduction)
