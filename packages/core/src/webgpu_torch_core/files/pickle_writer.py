"""Writing files that ``torch.load(path, weights_only=True)`` reads."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from webgpu_torch_core.files.host_tensors import STORAGE_NAMES, AtomicFile, HostStorage, HostTensor
from webgpu_torch_core.ir.dtypes import dtype

from .older_format import older_parts
from .pickle_objects import write_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO
    from zipfile import ZipInfo

_ALIGNMENT = 64
"""Storages start at multiples of this many bytes, as PyTorch's do, so that they can be mapped."""


def write_pickle(
    path: object,
    obj: object,
    describe: Callable[[object], HostTensor | HostStorage | None] | None = None,
    older: bool = False,
) -> None:
    """Write ``obj`` as ``torch.save(obj, path)`` does; the file appears under its name only when it is complete. Instead
    of a path an open binary file will do.

    ``obj`` may hold None, bool, int, float, complex, str, bytes, list, tuple, dict, OrderedDict, set, dtypes and
    tensors; objects of other classes, too, but files with them are not read with ``weights_only=True``. ``describe``
    returns the :class:`~.host.HostTensor` of a tensor and None for anything else (objects that are host tensors already
    need none). ``older`` writes the format before PyTorch 1.6. Host tensors with one storage object share it in the file. Raises TypeError for objects that don't say how to make them again, and OSError.
    """
    pickler = _Pickler(describe or (lambda value: value if isinstance(value, HostTensor) else None), older)
    data = pickler.dump(obj)
    if hasattr(path, "write"):
        # Whatever the stream can do, the archive is written as if it began at its start.
        whole = io.BytesIO()
        _write_whole(whole, "archive", data, pickler)
        path.write(whole.getbuffer())  # type: ignore[attr-defined]
        if hasattr(path, "flush"):
            # Who opens the path before the file is closed finds it whole, as with PyTorch.
            path.flush()  # type: ignore[attr-defined]
        return
    stem = os.path.splitext(os.path.basename(os.fsdecode(os.fspath(path))))[0] or "archive"  # type: ignore[call-overload]
    with AtomicFile(path) as file:
        _write_whole(file, stem, data, pickler)


def _write_whole(file: BinaryIO, stem: str, data: bytes, pickler: _Pickler) -> None:
    if pickler.older:
        file.writelines(older_parts(data, pickler.storages))
        return
    storages = ((f"data/{key}", storage.data) for key, storage in enumerate(pickler.storages))
    _write_archive(file, stem, [("data.pkl", data), ("byteorder", b"little"), *storages, ("version", b"3\n")])


def _write_archive(file: BinaryIO, stem: str, entries: list[tuple[str, object]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(f"{stem}/{name}")
            info.file_size = len(data)  # type: ignore[arg-type]
            info.extra = _padding(file.tell(), info)
            archive.writestr(info, data)  # type: ignore[arg-type]


def _padding(position: int, info: ZipInfo) -> bytes:
    """Return an extra field (id 'FB', as PyTorch's) that makes the entry's data start aligned."""
    # Beyond 2 GiB zipfile writes 20 bytes of 64-bit sizes before the extra field.
    wide = 20 if info.file_size * 1.05 > 0x7FFFFFFF else 0
    start = position + 30 + len(info.filename.encode()) + wide + 4
    length = -start % _ALIGNMENT
    return b"FB" + length.to_bytes(2, "little") + b"Z" * length


class _Pickler:
    """Writes pickle protocol 2, the one ``torch.save`` writes; storages are collected in :attr:`storages`."""

    def __init__(self, describe: Callable[[object], HostTensor | HostStorage | None], older: bool) -> None:
        self._describe = describe
        self.older = older
        self._out = bytearray(b"\x80\x02")
        # From identity to the memo's index and the object, which must live for its identity to be its own.
        self._memo: dict[int, tuple[int, object]] = {}
        self.storages: list[HostStorage] = []
        self._storage_keys: dict[int, int] = {}

    def dump(self, obj: object) -> bytes:
        """Return the pickle of ``obj``."""
        self._save(obj)
        return bytes(self._out + b".")

    def _remember(self, value: object) -> None:
        index = len(self._memo)
        self._memo[id(value)] = (index, value)
        self._out += b"q" + bytes((index,)) if index < 256 else b"r" + struct.pack("<I", index)

    def _save(self, value: object) -> None:
        if id(value) in self._memo:
            index = self._memo[id(value)][0]
            self._out += b"h" + bytes((index,)) if index < 256 else b"j" + struct.pack("<I", index)
            return
        kind = type(value)
        writer: Any = _WRITERS.get(kind)
        if writer is None and kind.__name__ == "Size" and isinstance(value, tuple):
            writer = _Pickler._size
        if writer is not None:
            writer(self, value)
            return
        tensor = self._describe(value)
        if tensor is None:
            write_object(self, value)
            return
        if isinstance(tensor, HostStorage):
            self._storage(tensor)
        else:
            self._tensor(tensor)
        self._remember(value)

    # What writers of other objects need

    def save(self, value: object) -> None:
        """Write a value, or refer to it if it is written already."""
        self._save(value)

    def write(self, codes: bytes) -> None:
        """Write instructions."""
        self._out += codes

    def write_global(self, module: str, name: str) -> None:
        """Write the name of a class or function."""
        self._global(module, name)

    def knows(self, value: object) -> bool:
        """Return whether a value is written already."""
        return id(value) in self._memo

    def remember(self, value: object) -> None:
        """Let later mentions of a value refer to what was written just now."""
        self._remember(value)

    def _global(self, module: str, name: str) -> None:
        self._out += f"c{module}\n{name}\n".encode()

    def _int(self, value: int) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self._out += b"J" + struct.pack("<i", value) if not 0 <= value < 256 else b"K" + bytes((value,))
            return
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        self._out += b"\x8a" + bytes((len(data),)) if len(data) < 256 else b"\x8b" + struct.pack("<I", len(data))
        self._out += data

    def _str(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self._out += b"X" + struct.pack("<I", len(data)) + data
        self._remember(value)

    def _bytes(self, value: bytes) -> None:
        self._global("_codecs", "encode")
        # Short-lived texts are written without the memo.
        for text in (value.decode("latin1"), "latin1"):
            data = text.encode()
            self._out += b"X" + struct.pack("<I", len(data)) + data
        self._out += b"\x86R"
        self._remember(value)

    def _complex(self, value: complex) -> None:
        self._global("__builtin__", "complex")
        self._out += b"G" + struct.pack(">d", value.real) + b"G" + struct.pack(">d", value.imag) + b"\x86R"

    def _list(self, value: list[Any]) -> None:
        self._out += b"]"
        self._remember(value)
        self._out += b"("
        for item in value:
            self._save(item)
        self._out += b"e"

    def _tuple(self, value: tuple[Any, ...]) -> None:
        if not value:
            self._out += b")"
            return
        self._out += b"("
        for item in value:
            self._save(item)
        if id(value) in self._memo:
            # An item led back here and wrote this tuple already.
            self._out += b"1"
            self._save(value)
            return
        self._out += b"t"
        self._remember(value)

    def _items(self, value: dict[Any, Any]) -> None:
        self._remember(value)
        self._out += b"("
        for key, item in value.items():
            self._save(key)
            self._save(item)
        self._out += b"u"

    def _dict(self, value: dict[Any, Any]) -> None:
        self._out += b"}"
        self._items(value)

    def _ordered_dict(self, value: OrderedDict[Any, Any]) -> None:
        self._global("collections", "OrderedDict")
        self._out += b")R"
        self._items(value)
        if value.__dict__:
            self._save(value.__dict__)
            self._out += b"b"

    def _set(self, value: set[Any]) -> None:
        self._global("__builtin__", "set")
        self._out += b"]("
        for item in value:
            self._save(item)
        self._out += b"e\x85R"
        self._remember(value)

    def _dtype(self, value: dtype) -> None:
        self._global("torch", value.name)

    def _size(self, value: tuple[int, ...]) -> None:
        self._global("torch", "Size")
        self._save(tuple(value))
        self._out += b"\x85R"
        self._remember(value)

    def _bool(self, value: bool) -> None:
        self._out += b"\x88" if value else b"\x89"

    def _none(self, value: None) -> None:
        self._out += b"N"

    def _float(self, value: float) -> None:
        self._out += b"G" + struct.pack(">d", value)

    def _tensor(self, tensor: HostTensor) -> None:
        if tensor.kind is not None or (tensor.attributes and not tensor.is_parameter):
            self._global("torch._tensor", "_rebuild_from_type_v2")
            self._out += b"("
            self._global("torch._utils", _rebuilder(tensor))
            if tensor.kind is None:
                self._global("torch", "Tensor")
            else:
                self._save(tensor.kind)
            self._arguments(tensor, tensor.requires_grad)
            self._save(tensor.attributes)
            self._out += b"tR"
        elif tensor.is_parameter:
            with_state = bool(tensor.attributes)
            self._global("torch._utils", "_rebuild_parameter_with_state" if with_state else "_rebuild_parameter")
            self._out += b"("
            self._plain_tensor(tensor, False)
            self._bool(tensor.requires_grad)
            self._hooks()
            if with_state:
                self._save(tensor.attributes)
            self._out += b"tR"
        else:
            self._plain_tensor(tensor, tensor.requires_grad)

    def _plain_tensor(self, tensor: HostTensor, requires_grad: bool) -> None:
        self._global("torch._utils", _rebuilder(tensor))
        self._arguments(tensor, requires_grad)
        self._out += b"R"

    def _arguments(self, tensor: HostTensor, requires_grad: bool) -> None:
        """Write what the function that makes a tensor takes."""
        if tensor.dtype is not tensor.storage.dtype:
            raise TypeError(f"cannot save a {tensor.dtype!r} view of a storage of {tensor.storage.dtype!r}")
        self._out += b"("
        self._storage(tensor.storage)
        self._int(tensor.storage_offset)
        self._tuple_of_ints(tensor.shape)
        self._tuple_of_ints(tensor.strides)
        self._bool(requires_grad)
        self._hooks()
        if tensor.dtype.name not in STORAGE_NAMES:
            self._dtype(tensor.dtype)
        self._out += b"t"

    def _tuple_of_ints(self, values: tuple[int, ...]) -> None:
        self._out += b"("
        for value in values:
            self._int(value)
        self._out += b"t"

    def _hooks(self) -> None:
        self._global("collections", "OrderedDict")
        self._out += b")R"

    def _storage(self, storage: HostStorage) -> None:
        key = self._storage_keys.get(id(storage))
        if key is None:
            key = self._storage_keys[id(storage)] = len(self.storages)
            self.storages.append(storage)
        typed = storage.is_typed
        self._out += b"("
        for text in ("storage", None, str(key), storage.location):
            if text is None and not typed:
                self._global("torch.storage", "UntypedStorage")
            elif text is None:
                self._global("torch", STORAGE_NAMES[storage.dtype.name])
            else:
                self._out += b"X" + struct.pack("<I", len(text.encode())) + text.encode()
        self._int(len(storage.data) // (storage.dtype.itemsize if typed else 1))
        self._out += b"NtQ" if self.older else b"tQ"


def _rebuilder(tensor: HostTensor) -> str:
    """Return the name of PyTorch's function that makes such a tensor."""
    return "_rebuild_tensor_v2" if tensor.dtype.name in STORAGE_NAMES else "_rebuild_tensor_v3"


_WRITERS: dict[type, Callable[..., Any]] = {
    type(None): _Pickler._none,
    bool: _Pickler._bool,
    int: _Pickler._int,
    float: _Pickler._float,
    complex: _Pickler._complex,
    str: _Pickler._str,
    bytes: _Pickler._bytes,
    list: _Pickler._list,
    tuple: _Pickler._tuple,
    dict: _Pickler._dict,
    OrderedDict: _Pickler._ordered_dict,
    set: _Pickler._set,
    dtype: _Pickler._dtype,
}
