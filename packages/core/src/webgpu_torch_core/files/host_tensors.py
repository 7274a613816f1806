"""Tensors as they lie in host memory or in a mapped file, before anybody gives them a device."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
from collections.abc import Sequence

from webgpu_torch_core.ir.dtypes import dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from typing_extensions import Buffer


#: the elements' types of what files call storages
STORAGE_DTYPES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "QInt8Storage": "qint8", "QUInt8Storage": "quint8", "QInt32Storage": "qint32",
    "UntypedStorage": "uint8",
}  # fmt: skip
#: what files call storages, by the names of their elements' types
STORAGE_NAMES = {name: storage for storage, name in STORAGE_DTYPES.items() if storage != "UntypedStorage"}


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major tensor of ``shape``."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


MAXIMUM_DIMENSIONS = 1024
"""A file that claims more dimensions is damaged; the bound keeps arithmetic on its sizes short."""


def brief(value: object) -> str:
    """Return a value for an error message; a container from a file only by its type, for its text may be endless."""
    if isinstance(value, (list, dict, set, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= 80 else f"{value[:80]!r}... ({len(value)} long)"
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


class HostStorage:
    """Bytes shared by tensors; two tensors share memory exactly when they hold the same storage object."""

    __slots__ = ("data", "dtype", "key", "location", "typed")

    def __init__(self, dtype: dtype, data: object, key: str = "", location: str = "cpu", typed: bool = True) -> None:
        self.dtype = dtype
        self.data = memoryview(data).cast("B")  # type: ignore[arg-type]
        self.key = key
        """The storage's name in the file it came from."""
        self.location = location
        """The device it was saved from, as PyTorch writes it (``cpu``, ``cuda:0``)."""
        self.typed = typed
        """Whether it is a row of elements rather than of bytes."""

    @property
    def is_typed(self) -> bool:
        """Whether files have a name for a storage of such elements: types that came later are told by their tensors."""
        return self.typed and self.dtype.name in STORAGE_NAMES

    def __repr__(self) -> str:
        return f"HostStorage(dtype={self.dtype!r}, nbytes={self.data.nbytes}, key={self.key!r})"


class HostTensor:
    """A strided view of a :class:`HostStorage`; strides and offset count elements, as PyTorch's do."""

    __slots__ = (
        "attributes",
        "conjugated",
        "dtype",
        "is_parameter",
        "kind",
        "negated",
        "requires_grad",
        "shape",
        "storage",
        "storage_offset",
        "strides",
    )

    def __init__(
        self, storage: HostStorage, shape: Sequence[int], strides: Sequence[int] | None = None,
        storage_offset: int = 0, requires_grad: bool = False, is_parameter: bool = False,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        self.dtype = storage.dtype if dtype is None else dtype
        self.shape = tuple(shape)
        self.strides = contiguous_strides(self.shape) if strides is None else tuple(strides)
        self.storage = storage
        self.storage_offset = storage_offset
        self.requires_grad = requires_grad
        self.is_parameter = is_parameter
        self.attributes: Any = {}
        """Python attributes that were saved with the tensor, or what its class says instead."""
        self.kind: type | None = None
        """The class of tensor that it is, if it is none of this library's."""
        self.conjugated = self.negated = False
        """Whether it has the conjugates of the elements, or the elements with the other sign."""

    @classmethod
    def from_bytes(cls, dtype: dtype, shape: Sequence[int], data: object) -> HostTensor:
        """Return a contiguous tensor over ``data``; raises ValueError when its size is not that of ``shape``."""
        tensor = cls(HostStorage(dtype, data), shape)
        if tensor.storage.data.nbytes != tensor.nbytes:
            raise ValueError(
                f"{tensor.nbytes} bytes make a {dtype!r} tensor of shape {tensor.shape}, got {tensor.storage.data.nbytes}"
            )
        return tensor

    @property
    def element_count(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, without gaps."""
        return self.element_count * self.dtype.itemsize

    def is_contiguous(self) -> bool:
        """Return whether the elements lie in row-major order without gaps."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return self.element_count == 0
            expected *= size
        return True

    def extent(self) -> int:
        """Return one more than the largest storage index that an element has (0 for a tensor without elements)."""
        if self.element_count == 0:
            return 0
        return self.storage_offset + 1 + sum((size - 1) * step for size, step in zip(self.shape, self.strides))

    def contiguous_bytes(self) -> memoryview:
        """Return the elements in row-major order: a view where they already are, a copy otherwise."""
        size = self.dtype.itemsize
        data = self.storage.data
        if self.is_contiguous():
            start = self.storage_offset * size
            return data[start : start + self.nbytes]
        positions = [self.storage_offset]
        for count, stride in zip(self.shape, self.strides):
            positions = [position + index * stride for position in positions for index in range(count)]
        return memoryview(b"".join([data[p * size : (p + 1) * size] for p in positions]))

    def __repr__(self) -> str:
        return f"HostTensor(dtype={self.dtype!r}, shape={self.shape}, strides={self.strides})"


def map_file(path: object) -> memoryview:
    """Return a file's bytes, mapped into memory and read only when touched.

    Raises OSError when the file cannot be opened. The mapping lives as long as a view of it does.
    """
    with open(path, "rb") as file:  # type: ignore[arg-type]
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):
            # Pipes and some virtual file systems (a browser's among them) cannot be mapped.
            return memoryview(file.read())


class MemoryFile(io.RawIOBase):
    """A seekable file over bytes, which copies only what is read."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        target = (0, self._position, len(self._data))[whence] + offset
        if target < 0:
            raise ValueError(f"position {target} lies before the start of the file")
        self._position = target
        return target

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        # What there is: a damaged file may ask for any number of bytes, and has them reserved otherwise.
        end = len(self._data) if size is None or size < 0 else self._position + size
        piece = bytes(self._data[self._position : end])
        self._position += len(piece)
        return piece

    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer)
        piece = self._data[self._position : self._position + len(target)]
        target[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


class AtomicFile:
    """A context manager: a binary file that takes its final name only when everything was written."""

    def __init__(self, path: object) -> None:
        self._path = os.fspath(path)  # type: ignore[call-overload]

    def __enter__(self) -> BinaryIO:
        directory, name = os.path.split(os.fsdecode(self._path))
        self._temporary = os.path.join(directory, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
        # Created like any other file, so that it gets the permissions the user's umask gives.
        self._file = open(self._temporary, "xb")
        return self._file

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        self._file.close()
        try:
            if kind is None:
                os.replace(self._temporary, self._path)
        finally:
            # It is gone where it has its name.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)
