"""Running the hooks of tensors and nodes, and checking what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..record.node import Node
from ..tensors.saved_tensors import type_name
from ..tensors.tensor import Tensor


def apply_tensor_hooks(node: Node, gradients: list[Any]) -> None:
    """Run tensor hooks on the gradients that arrived, then store those of ``retain_grad`` tensors.

    Raises:
        TypeError: a hook returned something else than a tensor.
        RuntimeError: a hook returned a tensor of another type or shape.
    """
    if node.pre_hooks:
        for number, hooks in node.pre_hooks.items():
            for hook in list(hooks.values()):
                gradients[number] = _replaced(hook, gradients[number], hook(gradients[number]))
    if node.retained:
        for number, reference in node.retained.items():
            tensor = reference()
            if tensor is not None and gradients[number] is not None:
                tensor._accumulate_grad(gradients[number])


def apply_node_pre_hooks(node: Node, gradients: list[Any]) -> list[Any]:
    """Return the gradients that a node is to run with.

    Raises:
        TypeError: a hook returned something else than a tuple of tensors.
        RuntimeError: a hook returned more or fewer gradients.
    """
    for hook in list((node.node_pre_hooks or {}).values()):
        gradients = list(_checked_tuple(hook, hook(tuple(gradients)), gradients))
    return gradients


def apply_node_hooks(node: Node, parts: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    """Return the gradients of a node's inputs after its hooks.

    Raises:
        TypeError: a hook returned something else than a tuple of tensors.
        RuntimeError: a hook returned more or fewer gradients.
    """
    for hook in list((node.hooks or {}).values()):
        parts = _checked_tuple(hook, hook(tuple(parts), tuple(gradients)), parts)
    return parts


def _checked_tuple(hook: Any, returned: Any, before: Sequence[Any]) -> Sequence[Any]:
    if returned is None:
        return before
    if not isinstance(returned, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(returned).__name__}'")
    if len(returned) != len(before):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(returned)}, but expected "
            f"{len(before)})"
        )
    return [_checked(hook, old, new) for old, new in zip(before, returned, strict=True)]


def _replaced(hook: Any, before: Any, returned: Any) -> Any:
    return before if returned is None else _checked(hook, before, returned)


def _checked(hook: Any, before: Any, returned: Any) -> Any:
    if returned is None:
        return None
    if not isinstance(returned, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(returned).__name__}'")
    if before is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if returned.dtype is not before.dtype or returned.device != before.device:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {type_name(before)} got {type_name(returned)})"
        )
    if returned._layout.shape != before._layout.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    return returned


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")
