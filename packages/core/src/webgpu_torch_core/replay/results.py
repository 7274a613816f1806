"""What a recorded call returned, as a template that replays fill in."""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict
from collections.abc import Callable, Container
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from ..record.tape import new_value
from ..tensors.tensor import Storage, Tensor, new_storage
from .guards import Description

_GIVEN_AS_THEY_ARE = (type, types.FunctionType, types.MethodType, types.ModuleType, types.BuiltinFunctionType)


class Given:
    """One of the objects that the call was given, returned by it."""

    def __init__(self, number: int) -> None:
        self.number = number


class Result:
    """Where one returned tensor's data is after a replay.

    Attributes:
        known: the position of the tensor that it is, or whose memory it shares, among those known; None for a new one.
        place: of a new one, the plan and buffer that hold its elements.
        storage: equal for results that share memory.
        tracked: whether gradients may flow into what made it: no replay makes that.
    """

    def __init__(self, tensor: Tensor, recording: Any) -> None:
        self.layout, self.dtype, self.device = tensor._layout, tensor.dtype, tensor.device
        self.kind = tensor.__class__
        value = tensor._storage.value
        self.numel, self.element = value.numel, value.dtype
        self.storage = tensor._storage.number
        self.known = recording.places.get(self.storage)
        self.itself = next((n for n, each in enumerate(recording.known) if each is tensor), None)
        self.place = recording.place_of(value)
        # A constant of the recording, such as a tensor that an object of the library keeps.
        self.same = tensor if self.place is None and self.known is None else None
        # What was gone backward from during the call raises, as it does after the call itself.
        self.node = None if tensor._grad_fn is None else tensor._grad_fn.spent()
        self.output_number = tensor._output_number
        self.tracked = tensor.requires_grad and self.node is None and self.itself is None

    def make(self, replay: Any, known: list[Tensor], tables: list[list[Any]], storages: dict[int, Storage]) -> Tensor:
        """Return the tensor."""
        if self.itself is not None:
            return known[self.itself]
        if self.known is not None:
            return self.kind._from_storage(known[self.known]._storage, self.layout, self.dtype, self.device)
        if self.same is not None:
            return self.same
        storage = storages.get(self.storage)
        if storage is None:
            number, position = self.place  # type: ignore[misc]
            value = new_value(replay.runs[number].engine, self.element, self.numel, tables[number][position])
            storage = storages[self.storage] = new_storage(value)
        made = self.kind._from_storage(storage, self.layout, self.dtype, self.device)
        made._grad_fn, made._output_number = self.node, self.output_number
        return made


def template(leaf: Any, recording: Any, numbers: dict[int, int]) -> Any:
    """Return what stands for a part of a result until a replay makes it.

    ``numbers``: places among the objects that the call was given, by identity.
    """
    if isinstance(leaf, Tensor):
        return Result(leaf, recording)
    number = numbers.get(id(leaf))
    return leaf if number is None else Given(number)


def map_nested(value: Any, change: Callable[[Any], Any], whole: Container[int] = ()) -> Any:
    """Return nested containers, data classes and namespaces with every leaf replaced.

    ``whole``: identities of objects that are leaves, whatever they contain.
    """
    if id(value) in whole:
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_nested(each, change, whole) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(map_nested(each, change, whole) for each in value)
    if type(value) is dict:
        return {key: map_nested(each, change, whole) for key, each in value.items()}
    if isinstance(value, dict):
        # A copy of a class of its own, such as a model's output, whose attributes may follow its items.
        copied = _copied(value)
        for key, each in value.items():
            copied[key] = map_nested(each, change, whole)
        return copied
    if (dataclasses.is_dataclass(value) and not isinstance(value, type)) or type(value) is types.SimpleNamespace:
        copied = copy(value)
        for name in _attributes(value):
            object.__setattr__(copied, name, map_nested(getattr(value, name), change, whole))
        return copied
    return change(value)


#: of classes of dictionaries: whether a copy has nothing but the items and attributes, the same objects
_bare: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _copied(value: dict[str, object]) -> dict[str, object]:
    """Return a copy of a dictionary of a class of its own, which need not call what the class makes copies by where that adds nothing."""
    kind = value.__class__
    bare = _bare.get(kind)
    if bare is None:
        # Slots hold what is neither an item nor an attribute.
        plain = not any(each.__dict__.get("__slots__") for each in kind.__mro__) and hasattr(value, "__dict__")
        made = copy(value)
        bare = _bare[kind] = plain and made.__class__ is kind and _same(made, value) and _same(vars(made), vars(value))
        return made
    if not bare:
        return copy(value)
    base: Any = OrderedDict if isinstance(value, OrderedDict) else dict
    made = base.__new__(kind)
    for key, each in value.items():
        base.__setitem__(made, key, each)
    vars(made).update(vars(value))
    return made


def _same(one: dict[str, object], other: dict[str, object]) -> bool:
    """Return whether two dictionaries have the same objects by the same names in the same order."""
    return [*map(id, one), *map(id, one.values())] == [*map(id, other), *map(id, other.values())]


def _attributes(value: Any) -> list[str]:
    """Return the names of a data class's or a namespace's attributes."""
    names = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    return list(dict.fromkeys([*(each for each in names if hasattr(value, each)), *getattr(value, "__dict__", ())]))


def unknown_object(result: Any, given: Description) -> str | None:
    """Return the complaint about a result's object that was not given and that replays would return again, or None."""
    strange: list[str] = []

    def look(leaf: Any) -> None:
        if isinstance(leaf, (Tensor, *_GIVEN_AS_THEY_ARE)) or id(leaf) in given.numbers:
            return
        if leaf.__class__.__hash__ not in (object.__hash__, None):
            return
        found = Description(opens=False)
        found.of(leaf)
        if any(each is leaf for each in found.objects) or found.unseen:
            holds = " with tensors in it" if found.tensors else ""
            strange.append(f"it returns a new {type(leaf).__name__}{holds}")

    map_nested(result, look, given.numbers)
    return strange[0] if strange else None
