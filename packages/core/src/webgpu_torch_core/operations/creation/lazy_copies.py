"""Copies that share their memory until one of them is written: in this library all memory is written that way."""

from __future__ import annotations

import weakref
from typing import Any

from ...record.grad_mode import recording
from ...record.node import Node
from ...tensors.storage import Storage
from ...tensors.tensor import Tensor
from ..in_place.writing import snapshot

#: storages of lazy copies, and of what they are copies of -> the value that they share
_shared: weakref.WeakKeyDictionary[Storage, weakref.ref[Any]] = weakref.WeakKeyDictionary()


def lazy_clone(self: Tensor) -> Tensor:
    """Return a copy of the same shape that takes memory of its own when it, or the tensor, is written into."""
    result = snapshot(self)
    edge = self._gradient_edge() if recording.enabled else None
    result._set_gradient(None if edge is None else Node("LazyCloneBackward0", (edge,), lambda gradient: (gradient,)))
    if result._storage.value is self._storage.value:
        for each in (self, result):
            _shared[each._storage] = weakref.ref(each._storage.value)
    return result


def is_lazy_copy(tensor: Tensor) -> bool:
    """Return whether a tensor shares memory with a lazy copy, or is one, and has not been written since."""
    found = _shared.get(tensor._storage)
    return found is not None and found() is tensor._storage.value


Tensor._lazy_clone = lazy_clone  # type: ignore[attr-defined]
