"""Exchanging what two tensors are, while everybody who holds them goes on holding the same objects."""

from __future__ import annotations

import copyreg
import weakref
from collections.abc import Sequence
from typing import NoReturn

from .tensor import Tensor

#: what belongs to the object and not to the tensor
_OWN = {"__weakref__", "_accumulator"}


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange what two tensors are: elements, gradients, classes and attributes; each object stays where it is held.

    A graph that has one of them as its leaf cannot be gone back through any more, and neither can one that has saved one.

    Args:
        t1: a tensor.
        t2: another one, of any shape and type.

    Raises:
        RuntimeError: there are weak references to one of them, or their classes have different slots.
    """
    for name, each in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(each):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = _slots(type(t1))
    if slots != _slots(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for each in (t1, t2):
        node = each._accumulator() if each._accumulator is not None else None
        if node is not None:
            node.register_prehook(_poisoned)
            each._accumulator = None
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in slots - _OWN - {"__dict__"}:
        found = [(getattr(each, name), True) if hasattr(each, name) else (None, False) for each in (t1, t2)]
        for each, (value, there) in zip((t2, t1), found, strict=True):
            if there:
                setattr(each, name, value)
            elif hasattr(each, name):
                delattr(each, name)
    # What a graph has saved of them shows that it is not what it was.
    version = max(t1._storage.version, t2._storage.version) + 1
    t1._storage.version = t2._storage.version = version


def _slots(kind: type) -> set[str]:
    return {*copyreg._slotnames(kind), *Tensor.__slots__}  # type: ignore[attr-defined]


def _poisoned(gradients: Sequence[object]) -> NoReturn:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run backward "
        "on a tensor that was swapped. For a module m with `torch.__future__.set_swap_module_params_on_conversion(True)` you "
        "should not change the device or dtype of the module (e.g. `m.cpu()` or `m.half()`) between running forward and "
        "backward. To resolve this, please only change the device/dtype before running forward (or after both forward and "
        "backward)."
    )
