"""A tensor's memory as a row of elements of one type: ``torch.TypedStorage`` and its older names, ``torch.FloatStorage`` and its kin."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from ...ir.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)  # fmt: skip
from ...notices import warn_once
from ...record.context import default_float
from ...record.devices import canonical_device, device
from ...tensors.tensor import Tensor
from ..common import dtype_title
from .factories import empty, tensor
from .untyped_storage import UntypedStorage

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike

#: the older name of a storage of each type
STORAGE_NAMES = {
    float64: "DoubleStorage", float32: "FloatStorage", float16: "HalfStorage", int64: "LongStorage", int32: "IntStorage",
    int16: "ShortStorage", int8: "CharStorage", uint8: "ByteStorage", bool_: "BoolStorage", bfloat16: "BFloat16Storage",
    complex128: "ComplexDoubleStorage", complex64: "ComplexFloatStorage",
}  # fmt: skip

_FORMS = (
    "{} received an invalid combination of arguments. Expected one of:\n * no arguments\n * (int size)\n * (Sequence data)\n"
    " * (*, UntypedStorage wrap_storage)"
)


class TypedStorage:
    """A tensor's memory as a row of elements; PyTorch keeps it for older programs, which write into it by its elements.

    Args:
        args: how many elements, or the elements.
        wrap_storage: memory that is there already, instead of both.
        dtype: the elements' type, the default type if there is none given.
        device: where the memory is to be.

    Raises:
        RuntimeError: more than one of these, or ``wrap_storage`` without a type or with a device.
        TypeError: an argument of another type.
    """

    def __init__(
        self, *args: int | Sequence[complex], wrap_storage: UntypedStorage | None = None, dtype: dtype | None = None,
        device: DeviceLike = None, _internal: bool = False,
    ) -> None:  # fmt: skip
        message = _FORMS.format("TypedStorage.__init__")
        if wrap_storage is not None:
            if args:
                raise RuntimeError(f"{message}\nNo positional arguments should be given when using 'wrap_storage'")
            if dtype is None:
                raise RuntimeError(f"{message}\nArgument 'dtype' must be specified")
            if not isinstance(dtype, _DTYPE):
                raise TypeError(f"{message}\nArgument 'dtype' must be torch.dtype, not {type(dtype)}")
            if device is not None:
                raise RuntimeError(f"{message}\nArgument 'device' should not be specified when 'wrap_storage' is given")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(
                    f"{message}\nArgument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}"
                )
            self._elements: Tensor = wrap_storage.as_elements(dtype)
            return
        if len(args) > 1:
            raise RuntimeError(f"{message}\nToo many positional arguments")
        kind, place = dtype or default_float[0], canonical_device("cpu" if device is None else device)
        data = args[0] if args else 0
        if isinstance(data, int):
            self._elements = empty(data, dtype=kind, device=place)
        elif isinstance(data, Sequence):
            self._elements = tensor(data, dtype=kind, device=place)
        else:
            raise TypeError(f"{message}\nArgument type not recognized: {type(data)}")

    @classmethod
    def of_tensor(cls, source: Tensor) -> TypedStorage:
        """Return the storage of a tensor, of whatever shape."""
        return cls(wrap_storage=UntypedStorage.of_tensor(source), dtype=source.dtype)

    @property
    def dtype(self) -> dtype:
        """The elements' type."""
        return self._elements.dtype

    @property
    def device(self) -> device:
        """Where the memory is."""
        return self._elements.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is CUDA's: never."""
        return False

    @property
    def is_sparse(self) -> bool:
        """Whether only some elements are stored: never."""
        return False

    @property
    def filename(self) -> str | None:
        """The file's name, if the bytes are a file's."""
        return None

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage.of_tensor(self._elements)

    _untyped_storage = property(untyped)

    def size(self) -> int:
        """Return the number of elements."""
        return self._elements.numel()

    __len__ = size

    def element_size(self) -> int:
        """Return bytes per element."""
        return self.dtype.itemsize

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self.size() * self.dtype.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element, as :meth:`torch.Tensor.data_ptr`."""
        return self._elements.data_ptr()

    _cdata = property(data_ptr)

    def get_device(self) -> int:
        """Return the number of the device; -1 on the CPU."""
        return -1 if self.device.index is None or self.device.type == "cpu" else self.device.index

    def pickle_storage_type(self) -> str:
        """Return the older name of storages of this type, as files have it."""
        return STORAGE_NAMES[self.dtype]

    def is_shared(self) -> bool:
        """Return False: memory is never shared between processes."""
        return False

    def is_pinned(self, device: DeviceLike = None) -> bool:
        """Return False: memory is never pinned."""
        return False

    def _readable(self) -> Tensor:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._elements

    def __getitem__(self, idx: int) -> complex:
        if isinstance(idx, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(idx, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(idx)}")
        return self._readable()[idx].item()

    def __setitem__(self, idx: int | slice, value: complex | Sequence[complex] | Tensor | TypedStorage) -> None:
        if not isinstance(idx, int | slice):
            raise RuntimeError(f"can't index a {type(self)} with {type(idx)}")
        if isinstance(value, TypedStorage):
            value = value._elements
        self._readable()[idx] = value

    def __iter__(self) -> Iterator[complex]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self.data_ptr() == other.data_ptr()

    __hash__ = None  # type: ignore[assignment]

    def tolist(self) -> list[complex]:
        """Return the elements as numbers."""
        return self._readable().tolist()  # type: ignore[attr-defined]

    def fill_(self, value: float) -> TypedStorage:
        """Write one number everywhere."""
        self._elements.fill_(value)  # type: ignore[attr-defined]
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Write another storage's elements, of as many.

        Raises:
            NotImplementedError: the source has no data.
        """
        self._elements.copy_(source._copyable())  # type: ignore[attr-defined]
        return self

    def as_elements(self, kind: dtype | None) -> Tensor:
        """Return the elements as a tensor of a type, which has to be theirs.

        Raises:
            RuntimeError: it is another one.
        """
        if kind not in (None, self.dtype):
            raise RuntimeError(
                f"Expected a Storage of type {dtype_title(kind)} or an UntypedStorage, but got type {dtype_title(self.dtype)} for "
                "argument 1 'storage'"
            )
        return self._elements

    def _copyable(self) -> Tensor:
        if self.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return self._elements

    def resize_(self, size: int) -> None:
        """Change the number of elements, in place; new ones are undefined."""
        self._elements.resize_(size)  # type: ignore[attr-defined]

    def clone(self) -> TypedStorage:
        """Return a copy."""
        return TypedStorage.of_tensor(self._elements.clone())  # type: ignore[attr-defined]

    def to(self, *, device: DeviceLike, non_blocking: bool = False) -> TypedStorage:
        """Return a copy on another device, or this storage if it is there."""
        place = canonical_device(device)
        return self if place == self.device else TypedStorage.of_tensor(self._copyable().to(place))  # type: ignore[attr-defined]

    def cpu(self) -> TypedStorage:
        """Return a copy on the CPU, or this storage if it is there."""
        return self.to(device="cpu")

    def type(self, dtype: object = None, non_blocking: bool = False) -> str | TypedStorage:
        """Return the older name with its module, or a copy of another type."""
        if dtype is None:
            return f"torch.{STORAGE_NAMES[self.dtype]}"
        return self._to(getattr(dtype, "dtype", dtype))  # type: ignore[arg-type]

    def _to(self, kind: dtype) -> TypedStorage:
        return TypedStorage.of_tensor(self._copyable().to(kind, copy=True))  # type: ignore[attr-defined]

    def share_memory_(self) -> TypedStorage:
        """Refuse: memory is never shared between processes.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("_share_fd_: only available on CPU, where memory is not shared between processes here")

    #: Refused as :meth:`share_memory_`, by whichever means.
    _share_fd_cpu_ = _share_filename_cpu_ = share_memory_

    def _write_file(self, f: BinaryIO, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Write the elements' bytes into a file that is open: see :class:`UntypedStorage`."""
        self.untyped()._write_file(f, is_real_file, save_size, element_size)

    def resizable(self) -> bool:
        """Return whether :meth:`resize_` may change the number of elements: not while others look at the memory."""
        value = self._elements._storage.value
        return not getattr(value, "outside", ())

    def __reduce__(self) -> tuple[Callable[[Tensor], TypedStorage], tuple[Tensor]]:
        return TypedStorage.of_tensor, (self._elements,)

    def __deepcopy__(self, memo: dict[int, object]) -> TypedStorage:
        # Tensors that are copied along look at the copy.
        return TypedStorage.of_tensor(copy.deepcopy(self._elements, memo))

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __repr__(self) -> str:
        rows = "..." if self.device.type == "meta" else " " + "\n ".join(str(each) for each in self.tolist())
        return f"{rows}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"

    __str__ = __repr__


_DTYPE = type(float32)


class LegacyStorageType(type):
    """The type of the older names: storages of the element type on the CPU are their instances."""

    dtype: dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(
        cls,
        *args: int | Sequence[complex],
        wrap_storage: UntypedStorage | None = None,
        dtype: object = None,
        device: object = None,
        _internal: bool = False,
    ) -> TypedStorage:
        """Return a storage of the type.

        Raises:
            RuntimeError: more than one way to make it, or a type or device.
            TypeError: neither a number nor a sequence.
        """
        message = _FORMS.format(f"{cls}.__new__")
        for name, value in (("device", device), ("dtype", dtype)):
            if value is not None:
                raise RuntimeError(f"{message}\nKeyword argument '{name}' cannot be specified")
        if wrap_storage is not None:
            if args:
                raise RuntimeError(f"{message}\nNo positional arguments should be given when using 'wrap_storage'")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(
                    f"{message}\nArgument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}"
                )
            return TypedStorage(wrap_storage=wrap_storage, dtype=cls.dtype)
        if len(args) > 1:
            raise RuntimeError(f"{message}\nToo many positional arguments")
        if args and not isinstance(args[0], int | Sequence):
            raise TypeError(f"{message}\nArgument type not recognized: {type(args[0])}")
        return TypedStorage(*args, dtype=cls.dtype)


def _legacy_storage(kind: dtype) -> LegacyStorageType:
    name = STORAGE_NAMES[kind]
    return LegacyStorageType(
        name, (), {"dtype": kind, "__module__": "torch", "__doc__": f"A storage of ``{kind.name}``."}
    )


DoubleStorage = _legacy_storage(float64)
FloatStorage = _legacy_storage(float32)
HalfStorage = _legacy_storage(float16)
LongStorage = _legacy_storage(int64)
IntStorage = _legacy_storage(int32)
ShortStorage = _legacy_storage(int16)
CharStorage = _legacy_storage(int8)
ByteStorage = _legacy_storage(uint8)
BoolStorage = _legacy_storage(bool_)
BFloat16Storage = _legacy_storage(bfloat16)
ComplexDoubleStorage = _legacy_storage(complex128)
ComplexFloatStorage = _legacy_storage(complex64)
LEGACY_STORAGES = {kind: globals()[name] for kind, name in STORAGE_NAMES.items()}
_CASTS = {
    "double": float64, "float": float32, "half": float16, "long": int64, "int": int32, "short": int16, "char": int8,
    "byte": uint8, "bool": bool_, "bfloat16": bfloat16, "complex_double": complex128, "complex_float": complex64,
}  # fmt: skip


def _cast(name: str, kind: dtype) -> None:
    def cast(self: TypedStorage) -> TypedStorage:
        return self._to(kind)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"Return a copy with elements of ``{kind.name}``."
    setattr(TypedStorage, name, cast)


for _name, _kind in _CASTS.items():
    _cast(_name, _kind)


def _storage(self: Tensor) -> TypedStorage:
    """Return the memory that the tensor and its views share, as a row of elements."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. This should "
        "only matter to you if you are using storages directly.  To access UntypedStorage directly, use tensor.untyped_storage() "
        "instead of tensor.storage()",
        repeats=False,
    )
    return TypedStorage.of_tensor(self)


def _storage_type(self: Tensor) -> LegacyStorageType:
    """Return the older name's class of storages of the tensor's type."""
    return LEGACY_STORAGES[self.dtype]


Tensor.storage = _storage  # type: ignore[attr-defined]
Tensor.storage_type = _storage_type  # type: ignore[attr-defined]
