"""Giving the outputs of a custom function their gradient: inputs returned as they are, changed in place, or viewed."""

from __future__ import annotations

from collections.abc import Iterable
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
    plain = [not isinstance(each, Tensor) or id(each) in skipped or each.dtype.category < 2 for each in outputs]
    several = plain.count(False) > 1
    result: list[Any] = []
    for number, each in enumerate(outputs):
        if not isinstance(each, Tensor):
            result.append(each)
        elif plain[number]:
            result.append(_without_gradient(each, id(each) in given, id(each) in dirty))
        elif id(each) in dirty:
            result.append(_changed(each, node, number))
        else:
            result.append(_fresh(each, node, number, id(each) in given, several))
    return tuple(result)


def unrecorded_outputs(
    written: Iterable[object], args: tuple[object, ...], outputs: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Return the outputs, whatever their shapes, where no gradients are recorded: views of inputs that are returned as they are."""
    given = {id(each) for each in args if isinstance(each, Tensor)}
    dirty = set(map(id, written))
    result: list[Tensor] = []
    for each in outputs:
        found = each
        if isinstance(each, Tensor):
            found = _without_gradient(each, True, id(each) in dirty) if id(each) in given else each
            if found._base is not None and id(each) not in dirty:
                found._base_state = (found._base._storage.version, "custom")
        result.append(found)
    return tuple(result)


def _without_gradient(tensor: Any, is_input: bool, is_dirty: bool) -> Any:
    if not tensor.requires_grad:
        return _seen(tensor) if is_input and not is_dirty else tensor
    if is_input:
        return tensor.detach()
    tensor._rebase_history(None)
    return tensor


def _seen(tensor: Tensor) -> Tensor:
    """Return a view of all of a tensor."""
    view = tensor.detach()
    view._base = tensor if tensor._base is None else tensor._base
    view._base_state = (view._base._storage.version, "custom")
    return view


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
        tensor = _seen(tensor)
    tensor._set_gradient(node, number)
    if tensor._base is not None:
        # The function decides how gradients flow; what is written into the view could not go through it.
        tensor._base_state = (tensor._base._storage.version, "several" if several else "custom")
    return tensor
