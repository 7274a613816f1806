"""Giving the outputs of a custom function their gradient: inputs returned as they are, changed in place, or viewed."""

from __future__ import annotations

from typing import Any

from ..operations.in_place.writing import rebase_gradient
from ..record.node import Node
from ..tensors.tensor import Tensor


def wrap_outputs(node: Node, context: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the outputs with their gradient.

    Raises:
        RuntimeError: a leaf that requires a gradient was changed in place.
    """
    given = {id(each) for each in args if isinstance(each, Tensor)}
    skipped = {id(each) for each in context._non_differentiable}
    dirty = {id(each) for each in context._dirty}
    views = sum(isinstance(each, Tensor) and each._base is not None for each in outputs)
    result: list[Any] = []
    for number, each in enumerate(outputs):
        if not isinstance(each, Tensor):
            result.append(each)
        elif id(each) in skipped or each.dtype.category < 2:
            result.append(_without_gradient(each, id(each) in given))
        elif id(each) in dirty:
            result.append(_changed(each, node, number))
        else:
            result.append(_fresh(each, node, number, id(each) in given, views > 1))
    return tuple(result)


def _without_gradient(tensor: Any, is_input: bool) -> Any:
    if not tensor.requires_grad:
        return tensor
    if is_input:
        return tensor.detach()
    tensor._rebase_history(None)
    return tensor


def _changed(tensor: Any, node: Node, number: int) -> Any:
    """Make the node a tensor's last writer."""
    if tensor._requires_grad:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    base = tensor._base
    if base is not None and base._requires_grad:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    rebase_gradient(tensor, node, number)
    return tensor


def _fresh(tensor: Any, node: Node, number: int, is_input: bool, several: bool) -> Any:
    """Return an output that the function made, or a view of the input that it returns as it is."""
    if is_input:
        base = tensor
        tensor = tensor.detach()
        tensor._base = base._base if base._base is not None else base
    tensor._set_gradient(node, number)
    if tensor._base is not None:
        # The function decides how gradients flow; what is written into the view could not go through it.
        tensor._base_state = (tensor._base._storage.version, "several" if several else "custom")
    return tensor
