"""One of two functions, chosen by a tensor, as ``torch.cond``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from webgpu_torch_core import Tensor

from ..utils import _pytree

Made = TypeVar("Made")


def cond(
    pred: bool | float | Tensor,
    true_fn: Callable[..., Made],
    false_fn: Callable[..., Made],
    operands: Sequence[object] = (),
) -> Made:
    """Return ``true_fn(*operands)`` where ``pred`` is true, else ``false_fn(*operands)``.

    The predicate is read, and only the branch that it names runs; gradients flow through it.

    Args:
        pred: a number, or a tensor with one element.
        true_fn, false_fn: functions of the operands.
        operands: a tuple or list of tensors, or of trees of them.

    Raises:
        RuntimeError: a predicate with several elements, a branch that cannot be called, or operands that are no tensors.
    """
    if not isinstance(pred, bool | int | float):
        _require_tensors(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if pred else false_fn(*operands)


def _require_tensors(pred: object, true_fn: object, false_fn: object, operands: object) -> None:
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, tuple | list) or _pytree.tree_any(lambda leaf: not isinstance(leaf, Tensor), operands):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but got "
            f"{operands}."
        )
