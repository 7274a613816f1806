"""Subscripts of batches: by what all examples share, and by what each brings itself."""

from __future__ import annotations

from typing import Any

from ..dispatch.registry import OPERATIONS
from ..tensors.pytree import tree_leaves
from ..tensors.tensor import Tensor
from .batching import batch_size, batched, is_batched, one_by_one


def _entries(value: Any, subscript: Any) -> tuple[Any, ...]:
    """Return one entry per dimension that a subscript names, the ellipsis as whole dimensions."""
    items = subscript if isinstance(subscript, tuple) else (subscript,)
    named = sum(
        1 for each in items if each is not None and each is not Ellipsis and each is not True and each is not False
    )
    found: list[Any] = []
    for each in items:
        if each is Ellipsis:
            found += [slice(None)] * (value.dim() - named)
        else:
            found.append(each)
    return tuple(found)


def _is_index(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.category == 1


def _batched_position(value: Any, subscript: Any, level: int) -> tuple[Any, int] | None:
    """Return a subscript of the batch and the dimension of its result that counts examples; None if no rule knows."""
    entries = _entries(value, subscript)
    basic = all(each is None or (isinstance(each, int | slice) and not isinstance(each, bool)) for each in entries)
    if basic:
        return (slice(None), *entries), 0
    if not all(each is None or isinstance(each, int | slice) or _is_index(each) for each in entries):
        return None
    places = [number for number, each in enumerate(entries) if isinstance(each, Tensor)]
    if any(isinstance(entries[number], int | None) for number in range(places[0], places[-1])):
        return None
    adjacent = places[-1] - places[0] + 1 == len(places)
    ndim = max(entries[number].dim() for number in places)
    # Each example's positions, of equally many dimensions, behind the one that counts examples.
    spread = [
        each.batch.reshape(each.batch.shape[0], *([1] * (ndim - each.dim())), *each.shape)
        if is_batched(each, level)
        else each
        for each in entries
    ]
    before = sum(1 for each in entries[: places[0]] if not isinstance(each, int))
    if not is_batched(value, level):
        return tuple(spread), before if adjacent else 0
    if not adjacent or before:
        return None
    count = batch_size(level)
    device = next(each for each in entries if isinstance(each, Tensor)).device

    own = OPERATIONS["arange"].function(count, device=device).reshape(count, *([1] * ndim))
    return (own, *spread), 0


def _refuse_masks(subscript: object, level: int) -> None:
    if any(is_batched(each, level) and each.dtype.category == 0 for each in tree_leaves(subscript)):
        raise RuntimeError(
            "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a "
            "boolean mask."
        )


def get_item(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    """Return a subscript of each example.

    Raises:
        RuntimeError: each example has a mask of its own, which shows another number of elements.
    """
    value, subscript = args
    _refuse_masks(subscript, level)
    found = _batched_position(value, subscript, level)
    if found is None:
        return one_by_one(func, level, args, kwargs)
    position, place = found
    whole = value.batch if is_batched(value, level) else value
    return batched(whole[position].movedim(place, 0), level)


def set_item(func: Any, level: int, args: Any, kwargs: Any) -> None:
    """Write at a subscript of each example.

    Raises:
        RuntimeError: the tensor is the same for all examples, but what is written is not; or each has a mask of its own.
    """
    value, subscript, source = args
    if not is_batched(value, level):
        raise RuntimeError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
            "extra_args that has more elements than `self`: what all examples share cannot hold each one's values"
        )
    _refuse_masks(subscript, level)
    entries = _entries(value, subscript)
    if any(isinstance(each, Tensor | list | bool) for each in entries) or any(
        is_batched(each, level) for each in tree_leaves(entries)
    ):
        one_by_one(func, level, args, kwargs)
        return
    target = value.batch[(slice(None), *entries)]
    if is_batched(source, level):
        missing = target.dim() - 1 - source.dim()
        source = (
            source.batch.reshape(source.batch.shape[0], *([1] * missing), *source.shape)
            if missing >= 0
            else source.batch
        )
    target.copy_(source) if isinstance(source, Tensor) else target.fill_(source)
