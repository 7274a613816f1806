"""The bytes behind tensors as an object: ``torch.UntypedStorage``."""

from __future__ import annotations

import copy
import mmap
import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from ...ir.dtypes import int64, uint8
from ...ir.layouts import contiguous_layout
from ...record.devices import canonical_device, device
from ...tensors.storage import Storage
from ...tensors.tensor import MetaValue, Tensor, storage_size
from .factories import from_bytes

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike


class _Shown:
    """What is kept of the object that shows a memory: itself as long as somebody has it, and its attributes and class."""

    def __init__(self, storage: UntypedStorage) -> None:
        self.object = weakref.ref(storage)
        self.attributes = storage.__dict__
        self.kind = type(storage)


#: what memory was shown as, by what tensors have of it: it is the same object, or has its attributes, when it is shown again
_shown: weakref.WeakKeyDictionary[Storage, _Shown] = weakref.WeakKeyDictionary()
#: the same by the number that all have who look at the same memory
_numbered: weakref.WeakValueDictionary[int, _Shown] = weakref.WeakValueDictionary()


class UntypedStorage:
    """A tensor's memory, or a file's bytes; two tensors share memory if their storages' :meth:`data_ptr` are equal.

    Args:
        size: how many bytes, or the bytes.
        device: where the memory is to be.
    """

    __slots__ = ("__dict__", "__weakref__", "_bytes", "_filename", "_tensor", "device")

    def __init__(self, size: int | Sequence[int] = 0, *, device: DeviceLike = None) -> None:
        self._tensor: Tensor | None = None
        self._bytes: memoryview | None = None
        self._filename: str | None = None
        self.device: device = canonical_device("cpu" if device is None else device)
        if self.device.type == "meta":
            count = size if isinstance(size, int) else len(size)
            self._tensor = from_bytes(b"", (count,), uint8, self.device)
        else:
            self._bytes = memoryview(bytearray(size))

    @classmethod
    def of_bytes(cls, data: memoryview) -> UntypedStorage:
        """Return a storage of the host's bytes."""
        made = cls()
        made._bytes = data
        return made

    @classmethod
    def of_tensor(cls, tensor: Tensor) -> UntypedStorage:
        """Return the storage of a tensor."""
        shown = _shown.get(tensor._storage) or _numbered.get(tensor._storage.number)
        made = None if shown is None else shown.object()
        if made is None:
            made = object.__new__(cls if shown is None else shown.kind)
            made._bytes, made._filename = None, None
            made.device = tensor.device
            if shown is not None:
                made.__dict__ = shown.attributes
            made._look_at(tensor.detach())
        elif shown is not None:
            _shown[tensor._storage] = shown
        return made

    def _look_at(self, tensor: Tensor) -> None:
        """Show the memory of a tensor from now on."""
        self._tensor = tensor
        _shown[tensor._storage] = _numbered[tensor._storage.number] = _Shown(self)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the first bytes of a file, mapped into memory when they are read.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is shorter than ``nbytes``, or ``shared`` asks for a file that writes reach.
        """
        if shared:
            raise ValueError("shared=True is not supported: tensors never write into the file")
        made = cls()
        name = os.fspath(filename)
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if nbytes > size:
                raise ValueError(f"{name} has {size} bytes, fewer than the {nbytes} asked for")
            made._bytes = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")[:nbytes]
        made._filename = name
        return made

    @property
    def filename(self) -> str | None:
        """The file's name, if the bytes are a file's."""
        return self._filename

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def nbytes(self) -> int:
        """Return the number of bytes."""
        if self._tensor is None:
            return len(self._bytes or b"")
        return storage_size(self._tensor) * self._tensor.dtype.itemsize

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """Return the address of the first byte, or a number that identifies the memory where a device has no addresses."""
        if self._tensor is None:
            return id(self._bytes)
        return self._tensor.as_strided((), (), 0).data_ptr() if self.nbytes() else 0

    _cdata = property(data_ptr)

    def element_size(self) -> int:
        """Return 1: the elements are bytes."""
        return 1

    def is_shared(self) -> bool:
        """Return False: memory is never shared between processes."""
        return False

    def host_bytes(self) -> memoryview:
        """Return the bytes, read from the device if they are there."""
        if self._tensor is None:
            return self._bytes or memoryview(b"")
        value: Any = self._tensor._storage.value
        if isinstance(value, MetaValue):
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return memoryview(value.engine.read(value)).cast("B")

    def _write_file(self, f: BinaryIO, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Write the bytes into a file that is open; before them, with ``save_size``, how many elements of a size they are.

        Raises:
            NotImplementedError: a storage without values.
        """
        data = self.host_bytes()
        if save_size:
            f.write((len(data) // element_size).to_bytes(8, "little"))
        f.write(data)

    def as_elements(self, dtype: Any) -> Tensor:
        """Return the memory as a row of elements of a type, int64 for None; of bytes that do not fill one more, none."""
        dtype = int64 if dtype is None else dtype
        whole = self._whole()
        kind, size = whole.dtype, storage_size(whole)
        flat = Tensor._from_storage(whole._storage, contiguous_layout((size,)), kind, self.device)
        if kind is dtype:
            return flat
        count = size * kind.itemsize // dtype.itemsize
        return flat.narrow(0, 0, count * dtype.itemsize // kind.itemsize).view(dtype)

    def _whole(self) -> Tensor:
        """Return a tensor that looks at the memory, whatever its type."""
        if self._tensor is None:
            data = self.host_bytes()
            self._look_at(from_bytes(data, (len(data),), uint8, self.device))
            self._bytes = None
        return self._tensor  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict[int, object]) -> UntypedStorage:
        return UntypedStorage.of_tensor(copy.deepcopy(self._whole(), memo))

    def __reduce__(self) -> tuple[Callable[[Tensor], UntypedStorage], tuple[Tensor]]:
        return UntypedStorage.of_tensor, (self._whole(),)

    def _readable(self) -> memoryview:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self.host_bytes()

    def _fix_weakref(self) -> None:
        """Do nothing: references to a storage are Python's own."""

    def fill_(self, value: int) -> UntypedStorage:
        """Write one number into every byte."""
        self.as_elements(uint8).fill_(value)  # type: ignore[attr-defined]
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Write another storage's bytes, of as many."""
        self.as_elements(uint8).copy_(from_bytes(source.host_bytes(), (len(source),), uint8))  # type: ignore[attr-defined]
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy."""
        return UntypedStorage.of_tensor(self.as_elements(uint8).clone())  # type: ignore[attr-defined]

    def to(self, *, device: DeviceLike, non_blocking: bool = False) -> UntypedStorage:
        """Return a copy on another device, or this storage if it is there."""
        place = canonical_device(device)
        if place == self.device:
            return self
        return UntypedStorage.of_tensor(from_bytes(self.host_bytes(), (len(self),), uint8, place))

    def cpu(self) -> UntypedStorage:
        """Return a copy on the CPU, or this storage if it is there."""
        return self.to(device="cpu")

    def __setitem__(self, index: int | slice, value: int | UntypedStorage) -> None:
        self._readable()
        given = value.as_elements(uint8) if isinstance(value, UntypedStorage) else value
        self.as_elements(uint8)[index] = given

    def __getitem__(self, index: Any) -> Any:
        found = self._readable()[index]
        if not isinstance(index, slice):
            return found
        part = UntypedStorage()
        part._bytes, part.device = found, self.device  # type: ignore[assignment]
        return part

    def tolist(self) -> list[int]:
        """Return the bytes as numbers."""
        return self._readable().tolist()

    def resize_(self, size: int) -> UntypedStorage:
        """Make the memory larger in place; new bytes are undefined, and fewer bytes free nothing.

        Raises:
            RuntimeError: fewer bytes than there are, or bytes that do not fill elements.
        """
        have = self.nbytes()
        if size in (0, have):
            return self
        whole = self._whole()
        width = whole.dtype.itemsize
        if size < have or size % width:
            raise RuntimeError(f"a storage of {have} bytes can't be resized to {size}; make a new tensor")
        flat = Tensor._from_storage(whole._storage, contiguous_layout((have // width,)), whole.dtype, self.device)
        flat.resize_(size // width)  # type: ignore[attr-defined]
        return self

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __repr__(self) -> str:
        rows = "..." if self.device.type == "meta" else " " + "\n ".join(map(str, self.host_bytes()))
        return f"{rows}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory that the tensor and its views share, as bytes."""
    return UntypedStorage.of_tensor(self)


Tensor.untyped_storage = untyped_storage  # type: ignore[attr-defined]
