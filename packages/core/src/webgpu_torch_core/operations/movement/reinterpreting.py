"""The same memory as elements of another type (``Tensor.view(dtype)``), or as a tensor of another class."""

from __future__ import annotations

import weakref
from typing import Any

from ...dispatch.overrides import DisableTorchFunction
from ...ir.dtypes import dtype
from ...ir.layouts import Layout, layout
from ...record.tape import Value, new_value
from ...tensors.tensor import MetaValue, Storage, Tensor, check_supported, new_storage
from ..common import type_title
from ..creation.factories import empty
from .views import make_view


def view_as_type(self: Tensor, kind: dtype) -> Tensor:
    """Return the tensor's bytes as elements of another type; writes to either reach both, and no gradient flows.

    Raises:
        RuntimeError: sizes, strides or the offset do not divide into elements of that type.
        TypeError: the device has no such type.
    """
    target = self._layout if kind.itemsize == self.dtype.itemsize else _converted(self, kind)
    stored, own = kind.stored, self.dtype.stored
    storage = self._storage if stored is own else _twin(self._storage, own, stored)
    return Tensor._from_storage(storage, target, kind, self.device)


def _converted(self: Tensor, kind: dtype) -> Layout:
    """Return where the elements of a type lie, counted in that type."""
    source, what = self._layout, f"to view {type_title(self)} as {_title(kind)} (different element sizes)"
    if source.ndim == 0:
        raise RuntimeError(f"self.dim() cannot be 0 {what}")
    ratio = max(self.dtype.itemsize, kind.itemsize) // min(self.dtype.itemsize, kind.itemsize)
    grows = kind.itemsize > self.dtype.itemsize
    if grows and source.shape[-1] % ratio:
        raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {what}, but got {source.shape[-1]}")
    if grows and source.offset % ratio:
        raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {what}, but got {source.offset}")
    if source.strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {what}, but got {source.strides[-1]}")
    if not grows:
        strides = (*(each * ratio for each in source.strides[:-1]), 1)
        return layout((*source.shape[:-1], source.shape[-1] * ratio), strides, source.offset * ratio)
    for dim, stride in enumerate(source.strides[:-1]):
        if stride % ratio:
            raise RuntimeError(f"self.stride({dim}) must be divisible by {ratio} {what}, but got {stride}")
    strides = (*(each // ratio for each in source.strides[:-1]), 1)
    return layout((*source.shape[:-1], source.shape[-1] // ratio), strides, source.offset // ratio)


def _title(kind: dtype) -> str:
    return type_title(empty(0, dtype=kind, device="meta"))


def _twin(storage: Storage, own: dtype, kind: dtype) -> Storage:
    """Return a storage over the same memory whose elements have another type."""
    value: Any = storage.value
    count = value.numel * own.itemsize // kind.itemsize
    if isinstance(value, MetaValue):
        return new_storage(MetaValue(value.engine, kind, count))
    engine = value.engine
    check_supported(engine, kind)
    if engine.capture is not None:
        engine.capture.broken = "it looks at its memory as elements of another type"
    # Both values see one buffer. Each counts as seen from outside while the other lives: then what is written lands in
    # the buffer itself, at once, and nobody reuses it.
    engine.flush()
    twin = new_value(engine, kind, count, value.realize())
    twin.outside = tuple(each for each in value.outside if each() is not None)
    relatives = [found for each in twin.outside if isinstance(found := each(), Value)]
    for each in (value, *relatives):
        each.share(weakref.ref(twin))
    twin.share(weakref.ref(value))
    made = new_storage(twin)
    made.number = storage.number
    return made


def as_subclass(self: Tensor, cls: Any) -> Any:
    """Return the tensor as an instance of a subclass: the same memory, and the same place in the graph.

    Raises:
        TypeError: not a class of tensors.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a type (got {cls!r})")
    with DisableTorchFunction():
        alias = make_view(self, self._layout, "AliasBackward0", lambda grad: grad)
        result = cls._from_storage(alias._storage, alias._layout, alias.dtype, alias.device)
    for name in ("_grad_fn", "_output_number", "_base", "_base_state"):
        setattr(result, name, getattr(alias, name))
    return result


Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]
