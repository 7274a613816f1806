"""Reading files of ``torch.save`` without running anything they say.

The format is a zip archive of uncompressed entries: ``<name>/data.pkl``, a pickle whose tensors refer to storages
``<name>/data/<key>``; before PyTorch 1.6 there was another (:mod:`~.older_format`). Python's own unpickler calls whatever a file names and allocates whatever size it claims, so
the pickle is interpreted here (:mod:`~.pickle_machine`): containers, plain values and tensors exist, nothing else does but
what the program itself lets files name (:mod:`~.permissions`).
"""

from __future__ import annotations

import io
import os
import pickletools
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError as UnpicklingError
from typing import Any, cast

from webgpu_torch_core.files.archives import read_directory
from webgpu_torch_core.files.host_tensors import (
    MAXIMUM_DIMENSIONS,
    STORAGE_DTYPES,
    HostStorage,
    HostTensor,
    brief,
    map_file,
)
from webgpu_torch_core.files.older_format import begins_older, is_older, open_older
from webgpu_torch_core.files.permissions import by_path, give_state
from webgpu_torch_core.files.pickle_machine import (
    ArchiveError,
    Builder,
    CheckpointError,
    EndOfFileError,
    Global,
    InvalidTensorError,
    PickleMachine,
    check_key,
    is_known,
)
from webgpu_torch_core.files.pickle_objects import REBUILDERS
from webgpu_torch_core.ir.dtypes import BY_NAME, dtype, uint8
from webgpu_torch_core.record.devices import device
from webgpu_torch_core.tensors.storage import Size

#: the order of bytes in files that do not tell it
default_byteorder = b"little"


def read_pickle(
    path: object,
    make_tensor: Callable[[HostTensor], object] | None = None,
    make_storage: Callable[[HostStorage], object] | None = None,
    run: Callable[[memoryview, Builder], object] | None = None,
    encoding: str = "utf-8",
) -> object:
    """Return the object that ``torch.save`` wrote to ``path``, as ``torch.load(path, weights_only=True)`` does. Instead of
    a path an open binary file will do.

    Every tensor and parameter is passed through ``make_tensor``; without it they stay :class:`~.host.HostTensor`
    views of the mapped file. Tensors that shared a storage share a :class:`~.host.HostStorage`. Raises
    UnpicklingError when the file is damaged, older than PyTorch 0.1.10, or names anything but tensors, plain containers and
    what the program added (:mod:`~.permissions`), and OSError when it cannot be opened. ``run`` reads the pickle itself
    instead (:mod:`~.trusted`). ``encoding`` is that of Python 2's texts, which stay bytes where it is ``bytes``.
    """
    source, entries, prefix, swap, label = _open_file(path)
    loader = _Loader(entries, prefix, swap, make_tensor, make_storage)
    try:
        if run is not None:
            return run(source, loader)
        return PickleMachine(source, loader, encoding).run()
    except CheckpointError as error:
        raise type(error)(f"{label}: {error}") from None


def _rest_of(file: io.BufferedIOBase) -> memoryview:
    """Return what is left of a file, read into one piece of memory where the file can do that."""
    readinto = getattr(file, "readinto", None)
    if readinto is None or not (hasattr(file, "seek") and hasattr(file, "tell")):
        return memoryview(file.read())
    start = file.tell()
    file.seek(0, 2)
    data = bytearray(max(file.tell() - start, 0))
    file.seek(start)
    count = 0
    while count < len(data):
        got = readinto(memoryview(data)[count:])
        if not got:
            break
        count += got
    return memoryview(data)[:count]


def _open_file(path: object) -> tuple[memoryview, dict[str, memoryview], str, bool, str]:
    """Return the pickle in a file of ``torch.save``, its storages, what their names begin with, whether these are big-endian, and
    the file's name for errors."""
    start = 0
    if hasattr(path, "read"):
        start = path.tell() if hasattr(path, "tell") else 0  # type: ignore[attr-defined]
        data, label = _rest_of(cast("io.BufferedIOBase", path)), getattr(path, "name", type(path).__name__)
    else:
        data, label = map_file(path), repr(os.fspath(path))  # type: ignore[call-overload]
    if is_older(data):
        source, storages, swap, end = open_older(data, label)
        if hasattr(path, "seek"):
            # What follows in the file is the caller's.
            path.seek(start + end)  # type: ignore[attr-defined]
        return source, storages, "", swap, label
    entries, prefix = _open_archive(data, label)
    byteorder = bytes(entries.get(prefix + "byteorder", default_byteorder)[:20])
    if byteorder not in (b"little", b"big"):
        raise CheckpointError(f"{label}: byteorder must be 'little' or 'big', got {byteorder!r}")
    return entries[prefix + "data.pkl"], entries, prefix + "data/", byteorder == b"big", label


def _open_archive(data: memoryview, label: str) -> tuple[dict[str, memoryview], str]:
    """Return the entries of an archive of ``torch.save``, and what their names begin with."""
    if data[:4] != b"PK\x03\x04":
        kind = EndOfFileError if begins_older(data) else ArchiveError if data[:1] == b"\x80" else CheckpointError
        raise kind(f"{label}: {_describe_foreign(data)}")
    entries = read_directory(data, label)
    pickles = [name for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise ArchiveError(f"{label}: expected one '<name>/data.pkl' in the archive, found {len(pickles)}")
    prefix = pickles[0].removesuffix("data.pkl")
    if prefix + "constants.pkl" in entries:
        raise ArchiveError(f"{label}: this is a TorchScript archive; save the module's state_dict() instead")
    return entries, prefix


def unknown_globals(path: object) -> list[str]:
    """Return the names in a file of ``torch.save`` that reading it would refuse; nothing of the file is run.

    Raises:
        UnpicklingError: the file is damaged or is none of ``torch.save``.
    """
    source, _, _, _, label = _open_file(path)
    allowed, found, texts, memo = by_path(), list[str](), list[Any](), list[Any]()
    try:
        operations: Any = pickletools.genops(bytes(source))
        for code, argument, _ in operations:
            # Since protocol 4 a name is the two texts before it, and either may have come from the memo.
            if code.name == "MEMOIZE":
                memo.append(texts[-1] if texts else None)
            elif code.name in ("BINGET", "LONG_BINGET"):
                texts.append(memo[argument] if argument < len(memo) else None)
            elif code.name in ("GLOBAL", "STACK_GLOBAL"):
                module, name = argument.split(" ", 1) if code.name == "GLOBAL" else map(str, texts[-2:])
                module = "builtins" if module == "__builtin__" else module
                if not is_known(module, name) and f"{module}.{name}" not in (*allowed, *found):
                    found.append(f"{module}.{name}")
            else:
                texts.append(argument)
    except (ValueError, DeprecationWarning) as error:
        raise CheckpointError(f"{label}: malformed pickle: {error}") from None
    return found


def _describe_foreign(data: memoryview) -> str:
    """Say what a file is that is not a zip archive, and what to do about it."""
    advice = "load it with that PyTorch's torch.load and save it again with torch.save of PyTorch 1.6 or later"
    head = bytes(data[:512])
    if head[257:262] == b"ustar" or head.startswith((b"storages\0", b"tensors\0", b"pickle\0")):
        return f"this is the tar format of torch.save before PyTorch 0.1.10; {advice}"
    if head.startswith(b"\x80"):
        return "this is a plain pickle file, not one of torch.save; it is refused because a pickle may run any code"
    if head[8:9] == b"{":
        return "this is not a file of torch.save; it looks like a safetensors file, which read_safetensors reads"
    return (
        f"this is not a file of torch.save: expected a zip archive, found {len(data)} bytes starting with {head[:8]!r}"
    )


class _Loader:
    """What the pickle machine may build: storages, tensors, parameters and a few plain values."""

    def __init__(
        self,
        entries: dict[str, memoryview],
        prefix: str,
        swap: bool,
        make_tensor: Callable[[HostTensor], object] | None,
        make_storage: Callable[[HostStorage], object] | None = None,
    ) -> None:
        self._entries = entries
        self._prefix = prefix
        self._swap = swap
        self._make_tensor = make_tensor
        self._make_storage = make_storage
        # From the identity of a storage that the caller made to it and to what the file has.
        self._made: dict[int, tuple[object, HostStorage]] = {}
        self._storages: dict[str, HostStorage] = {}
        # From the identity of a finished tensor to where it came from; the tensor is kept so that the identity stays its.
        self._origins: dict[int, tuple[object, HostTensor]] = {}

    def persistent(self, reference: object) -> object:
        """Return the storage that a tuple ``('storage', type, key, location, count)`` refers to; in older files a class, too."""
        if isinstance(reference, tuple):
            # Files of Python 2 that are read as bytes have bytes for their texts.
            reference = tuple(each.decode("latin1") if isinstance(each, bytes) else each for each in reference)
        part: object = None
        match reference:
            case ("storage", Global(module="torch" | "torch.storage", name=kind), str(key), str(location), int(count)):
                pass
            case (
                "storage", Global(module="torch" | "torch.storage", name=kind), str(key), str(location), int(count), part,
            ):  # fmt: skip
                pass
            case ("module", type() as kind, _, _):
                return kind
            case _:
                raise CheckpointError(f"expected a reference to a storage, got {brief(reference)}")
        if kind not in STORAGE_DTYPES:
            raise CheckpointError(
                f"storage {brief(key)}: torch.{kind} is not supported; supported are {sorted(STORAGE_DTYPES)}"
            )
        element = BY_NAME[STORAGE_DTYPES[kind]]
        if key not in self._storages:
            self._storages[key] = self._open_storage(key, element, location, count)
        storage = self._storages[key]
        if storage.dtype is not element:
            raise CheckpointError(f"storage {brief(key)} is referred to as {storage.dtype!r} and as {element!r}")
        storage = storage if part is None else self._part(storage, part)
        if self._make_storage is None:
            return storage
        made = self._make_storage(storage)
        self._made[id(made)] = made, storage
        return made

    def _part(self, storage: HostStorage, part: object) -> HostStorage:
        """Return a part of a storage: ``(name, offset, count)``, which the oldest files have storages for."""
        if not isinstance(part, tuple) or len(part) != 3:
            raise CheckpointError(f"expected a part of a storage, got {brief(part)}")
        name, (start, count) = str(part[0]), _counts(part[1:])
        if name not in self._storages:
            size = storage.dtype.itemsize
            if (start + count) * size > len(storage.data):
                raise CheckpointError(f"storage {brief(name)} reaches beyond storage {brief(storage.key)}")
            data = storage.data[start * size : (start + count) * size]
            self._storages[name] = HostStorage(storage.dtype, data, name, storage.location)
        return self._storages[name]

    def _open_storage(self, key: str, element: dtype, location: str, count: int) -> HostStorage:
        data = self._entries.get(self._prefix + key)
        if data is None:
            raise ArchiveError(f"storage {brief(key)} is missing from the archive")
        if not 0 <= count < 1 << 63 or count * element.itemsize != len(data):
            raise ArchiveError(
                f"storage {brief(key)}: {brief(count)} elements of {element!r} do not make its {len(data)} bytes"
            )
        if self._swap and element.itemsize > 1:
            swapped = array({2: "H", 4: "I", 8: "Q"}[element.to_real().itemsize], bytes(data))
            swapped.byteswap()
            return HostStorage(element, swapped, key, location)
        return HostStorage(element, data, key, location)

    def finish(self, tensor: HostTensor) -> object:
        """Return what the caller wants instead of a host tensor."""
        result = tensor if self._make_tensor is None else self._make_tensor(tensor)
        self._origins[id(result)] = (result, tensor)
        return result

    def _tensor(self, storage: object, offset: object, shape: object, strides: object, requires_grad: object,
                element: dtype | None, metadata: object) -> object:  # fmt: skip
        storage = self._made.get(id(storage), (None, storage))[1]
        if not isinstance(storage, HostStorage) or not isinstance(requires_grad, bool):
            raise CheckpointError(
                f"a tensor is made of a storage and a flag, got {brief(storage)}, {brief(requires_grad)}"
            )
        if element is not None and element is not storage.dtype:
            if storage.dtype is not uint8:
                raise CheckpointError(f"a tensor of {element!r} cannot view a storage of {storage.dtype!r}")
            if self._swap and element.itemsize > 1:
                raise CheckpointError(
                    f"storage {brief(storage.key)}: untyped big-endian bytes cannot be read as {element!r}"
                )
        sizes, steps = _counts(shape), _counts(strides)
        (start,) = _counts((offset,))
        if len(sizes) != len(steps):
            raise InvalidTensorError(f"a tensor of shape {sizes} cannot have strides {steps}")
        tensor = HostTensor(storage, sizes, steps, start, requires_grad, dtype=element)
        _mark(tensor, metadata, self._make_tensor is not None)
        if tensor.extent() * tensor.dtype.itemsize > len(storage.data):
            raise InvalidTensorError(
                f"a tensor of shape {sizes}, strides {steps}, offset {start} and type {tensor.dtype!r} reaches beyond the "
                f"{len(storage.data)} bytes of storage {brief(storage.key)}"
            )
        return self.finish(tensor)

    def rebuild_tensor(
        self, storage: object, offset: object, shape: object, strides: object, requires_grad: object, hooks: object,
        metadata: object = None,
    ) -> object:  # fmt: skip
        """``_rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks, metadata=None)``."""
        return self._tensor(storage, offset, shape, strides, requires_grad, None, metadata)

    def rebuild_tensor_v3(
        self, storage: object, offset: object, shape: object, strides: object, requires_grad: object, hooks: object,
        element: object, metadata: object = None,
    ) -> object:  # fmt: skip
        """``_rebuild_tensor_v3(storage, offset, shape, strides, requires_grad, hooks, dtype, metadata=None)``."""
        if not isinstance(element, dtype):
            raise CheckpointError(f"_rebuild_tensor_v3 takes a dtype, got {brief(element)}")
        return self._tensor(storage, offset, shape, strides, requires_grad, element, metadata)

    def _origin(self, value: object) -> HostTensor:
        origin = self._origins.get(id(value))
        if origin is None:
            raise CheckpointError(f"expected a tensor, got {brief(value)}")
        return origin[1]

    def rebuild_parameter(self, data: object, requires_grad: object, hooks: object, state: object = None) -> object:
        """``_rebuild_parameter(data, requires_grad, hooks)``, and with attributes ``_rebuild_parameter_with_state``."""
        base = self._origin(data)
        if not isinstance(requires_grad, bool):
            raise CheckpointError(f"a parameter's requires_grad is a bool, got {brief(requires_grad)}")
        parameter = HostTensor(
            base.storage, base.shape, base.strides, base.storage_offset, requires_grad, True, base.dtype
        )
        parameter.attributes = _attributes(state)
        parameter.conjugated, parameter.negated = base.conjugated, base.negated
        return self.finish(parameter)

    def rebuild_from_type(self, function: object, kind: object, arguments: object, state: object) -> object:
        """``_rebuild_from_type_v2(function, type, arguments, state)``: a tensor with Python attributes."""
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise CheckpointError(f"cannot rebuild a tensor by {brief(function)}")
        if isinstance(kind, type):
            made: Any = self.call(function, arguments)
            made = made if self._make_tensor is None or type(made) is kind else made.as_subclass(kind)
            give_state(made, state)
            return made
        if not isinstance(kind, Global) or kind.path not in ("torch.Tensor", "torch.nn.parameter.Parameter"):
            raise CheckpointError(f"Weights only load refused the tensor subclass {brief(kind)}")
        made = self.call(function, arguments)
        base = self._origin(made)
        base.attributes = _attributes(state)
        return self.finish(base)

    def call(self, function: Global, arguments: tuple[Any, ...]) -> object:
        """Return ``function(*arguments)`` for the few functions there are."""
        builder, rebuild = _BUILDERS.get(function.path), REBUILDERS.get(function.path)
        if builder is None and rebuild is None:
            raise CheckpointError(f"Weights only load refused to call '{function.path}'")
        try:
            return builder(self, *arguments) if builder is not None else rebuild(*arguments)  # type: ignore[misc]
        except CheckpointError:
            raise
        except (TypeError, ValueError, OverflowError, LookupError, RuntimeError) as error:
            kind = InvalidTensorError if isinstance(error, RuntimeError) else CheckpointError
            raise kind(f"'{function.path}' cannot be called with {brief(arguments)}: {error}") from None


def _mark(tensor: HostTensor, metadata: object, finished: bool) -> None:
    """Note what else a file says of a tensor: ``conj`` and ``neg``, of which its reader makes other elements."""
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(each in ("conj", "neg") for each in metadata):
        raise CheckpointError(f"a tensor may be conjugated or negated, got {brief(metadata)}")
    if not finished and any(metadata.values()):
        raise CheckpointError("a tensor that is conjugated or negated cannot be read as bytes")
    tensor.conjugated, tensor.negated = bool(metadata.get("conj")), bool(metadata.get("neg"))


def _counts(values: object) -> tuple[int, ...]:
    if (
        not isinstance(values, (tuple, list))
        or len(values) > MAXIMUM_DIMENSIONS
        or not all(type(each) is int and 0 <= each < 1 << 63 for each in values)
    ):
        raise CheckpointError(f"sizes, strides and offsets are non-negative integers, got {brief(values)}")
    return tuple(values)


def _attributes(state: object) -> dict[str, object]:
    if isinstance(state, tuple) and len(state) == 2 and state[1] is None:
        state = state[0]
    if state is None:
        return {}
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise CheckpointError(f"the attributes of a tensor are a dict of names, got {brief(state)}")
    return state


def _device(loader: _Loader, kind: object, index: object = None) -> device:
    if not isinstance(kind, str) or not (index is None or type(index) is int):
        raise CheckpointError(f"a device is a type and an index, got {brief(kind)}, {brief(index)}")
    return device(kind, index)


def _ordered_dict(loader: _Loader, items: object = ()) -> object:
    if not isinstance(items, (list, tuple)):
        raise CheckpointError(f"an OrderedDict is made of pairs, got {brief(items)}")
    return OrderedDict((check_key(key), value) for key, value in items)


def _counter(loader: _Loader, counts: object = ()) -> object:
    if not isinstance(counts, dict) or not all(type(each) is int for each in counts.values()):
        raise CheckpointError(f"a Counter is made of a dict of integers, got {brief(counts)}")
    return Counter(counts)


def _set(loader: _Loader, items: object = ()) -> set[Any]:
    if not isinstance(items, (list, tuple)):
        raise CheckpointError(f"a set is made of a list, got {brief(items)}")
    return {check_key(item) for item in items}


def _encode(loader: _Loader, text: object, encoding: object) -> bytes:
    # Protocol 2 has no bytes: it spells them as Latin-1 text.
    if not isinstance(text, str) or encoding != "latin1":
        raise CheckpointError(f"bytes are spelled as latin1 text, got encoding {brief(encoding)}")
    return text.encode("latin1")


def _bytes(loader: _Loader) -> bytes:
    return b""


def _complex(loader: _Loader, real: object, imaginary: object) -> complex:
    if not isinstance(real, (int, float)) or not isinstance(imaginary, (int, float)):
        raise CheckpointError(f"a complex number is two numbers, got {brief(real)}, {brief(imaginary)}")
    return complex(real, imaginary)


_BUILDERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _Loader.rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _Loader.rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _Loader.rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _Loader.rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _Loader.rebuild_from_type,
    "torch.Size": lambda loader, values=(): Size(_counts(values)),
    "torch.device": _device,
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "builtins.set": _set,
    "builtins.complex": _complex,
    "builtins.bytes": _bytes,
    "_codecs.encode": _encode,
}
