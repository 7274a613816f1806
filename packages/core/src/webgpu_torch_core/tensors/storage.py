"""What tensors share: shapes, storages, and values of the device that holds no data."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Iterable
from typing import Any
from weakref import ref

from ..ir.dtypes import dtype
from ..record.context import ever
from ..record.devices import MetaEngine
from ..record.grad_mode import recording

storage_numbers = itertools.count(1)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of ints.

    Raises:
        TypeError: something else.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[int] = ()) -> Size:
        """Return the shape of these sizes; those of tensors are made without this check."""
        found = tuple.__new__(cls, sizes)
        if all(map(_is_size, found)):
            return found
        ints: list[int] = []
        for place, each in enumerate(found):
            try:
                # A tensor of one integer has an index, others none; True is 1. Sizes that stand for others stay what they are.
                ints.append(each if _is_size(each) else operator.index(each))
            except TypeError as error:
                kind = type(each).__name__
                raise TypeError(f"torch.Size() takes an iterable of 'int' (item {place} is '{kind}')") from error
        return tuple.__new__(cls, ints)

    def numel(self) -> int:
        """Return the product of the sizes."""
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        # What it has are sizes already.
        return tuple.__new__(Size, found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))


class Storage:
    """The memory that a tensor and its views share; points at its current value in the lazy graph.

    ``version`` counts in-place writes; ``number`` identifies the storage (tied weights have equal numbers).
    """

    __slots__ = ("__weakref__", "inference", "number", "value", "version")

    value: Any
    version: int
    # Made in inference mode: of no use to gradients later.
    inference: bool
    number: int

    def exchange(self, value: Any) -> Any:
        """Point at other memory with the same elements, and return that."""
        self.value = value
        value.owner = ref(self)
        return value

    def rebind(self, value: Any) -> None:
        """Point at a new value after an in-place write."""
        self.value = value
        self.version += 1
        value.owner = ref(self)


def new_storage(value: Any) -> Storage:
    """Return the storage of a value that has none yet: a function, as :func:`new_value` is."""
    storage = Storage()
    storage.value, storage.version, storage.number = value, 0, next(storage_numbers)
    storage.inference = ever.inference and recording.inference
    value.owner = ref(storage)
    return storage


class DataStorage(Storage):
    """The memory of another storage under a version counter of its own: what ``Tensor.data`` looks at."""

    __slots__ = ("origin",)

    def __init__(self, origin: Storage) -> None:
        self.origin: Storage = origin.origin if isinstance(origin, DataStorage) else origin
        self.version = 0
        self.inference = origin.inference
        self.number = origin.number

    @property
    def value(self) -> Any:  # type: ignore[override]
        """The value that the memory holds now."""
        return self.origin.value

    @value.setter
    def value(self, value: Any) -> None:
        self.origin.value = value

    def exchange(self, value: Any) -> Any:
        """Point at other memory with the same elements, and return that."""
        return self.origin.exchange(value)

    def rebind(self, value: Any) -> None:
        """Point at a new value after an in-place write, which the other storage does not count."""
        self.origin.exchange(value)
        self.version += 1


def _references(storage: Storage) -> tuple[int, int]:
    value = storage.value
    return sys.getrefcount(value), sys.getrefcount(value.buffer)


class _Example:
    """What a storage that holds its memory alone refers to."""

    __slots__ = ("__weakref__", "buffer", "owner")

    def __init__(self) -> None:
        self.buffer = object()


_ALONE = _references(new_storage(_Example()))


def holds_alone(storage: Storage) -> bool:
    """Return whether nobody but a storage refers to its value, and nobody but that to its buffer; computes it first."""
    storage.value.realize()
    values, buffers = _references(storage)
    return values <= _ALONE[0] and buffers <= _ALONE[1]


class MetaValue:
    """A value on the meta device: a size and a type."""

    __slots__ = ("__weakref__", "dtype", "engine", "numel", "owner")

    def __init__(self, engine: MetaEngine, dtype: dtype, numel: int) -> None:
        if not engine.computes:
            raise NotImplementedError(
                "an operation on a tensor without elements did not reach its class (__torch_dispatch__): it is not written with "
                "public functions here; call those that it is made of"
            )
        self.engine = engine
        self.dtype = dtype
        self.numel = numel
        self.owner: Any = None


def check_countable(shape: tuple[int, ...], numel: int, dtype: dtype) -> None:
    """Raise a RuntimeError where nobody could have the memory that elements take, or where numbers of elements do not fit."""
    if numel * dtype.itemsize >= 1 << 63 or (not numel and overflows(shape, 64)):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    if not numel and overflows([max(each, 1) for each in reversed(shape)][:-1], 63):
        raise RuntimeError("Stride calculation overflowed")


def overflows(sizes: Iterable[int], bits: int) -> bool:
    """Return whether a product, size by size, does not fit into a number of bits, whatever zeros come later."""
    return any(each >> bits for each in itertools.accumulate(sizes, operator.mul))


def require_differentiable(
    dtype: dtype, wanted: bool, which: str = "only Tensors of floating point and complex dtype"
) -> None:
    """Raise a RuntimeError, in words that say which would be right, where a gradient is wanted of a type that has none."""
    if wanted and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{which} can require gradients")
