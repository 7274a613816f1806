"""Lists and dictionaries that a graph's nodes keep as arguments: to change one, give the node another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from webgpu_torch_core.tensors import pytree

#: anything that a node may have as an argument: nodes, numbers, texts, types, and lists, tuples, dictionaries and slices of them
Argument: TypeAlias = Any


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        f"'{type(self).__name__}' object does not support mutation. If you are attempting to modify the kwargs or args of a "
        "torch.fx.Node object, instead create a new copy of it and assign the copy to the node:\n    new_args = ... # copy and "
        "mutate args\n    node.args = new_args"
    )


class immutable_list(list[Argument]):
    """A list that does not change."""

    append = extend = insert = pop = remove = reverse = sort = clear = _refuse  # type: ignore[assignment]
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type, tuple[tuple[Argument, ...]]]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[str, Argument]):
    """A dictionary that does not change."""

    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]
    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type, tuple[tuple[tuple[str, Argument], ...]]]:
        return immutable_dict, (tuple(self.items()),)


pytree.register_pytree_node(immutable_list, lambda each: (list(each), None), lambda values, _: immutable_list(values))
pytree.register_pytree_node(
    immutable_dict,
    lambda each: (list(each.values()), list(each)),
    lambda values, keys: immutable_dict(zip(keys, values)),
)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """Return an argument with a function applied to all that is in its tuples, lists, dictionaries and slices."""
    if isinstance(a, tuple):
        mapped = tuple(map_aggregate(each, fn) for each in a)
        # Named tuples stay what they are.
        return type(a)(*mapped) if hasattr(a, "_fields") else mapped
    if isinstance(a, list):
        return immutable_list(map_aggregate(each, fn) for each in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(each, fn)) for key, each in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)
