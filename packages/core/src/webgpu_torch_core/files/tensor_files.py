"""Tensors in files: safetensors, and PyTorch's own format through ``torch.save`` and ``torch.load``."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .. import files
from ..ir.dtypes import QUANTIZED, dtype, uint8
from ..ir.layouts import layout
from ..operations.creation.copy_protocols import (
    kept_attributes,
    rebuild_with_state,
    rebuild_without_storage,
    rebuild_wrapper,
)
from ..operations.creation.factories import from_bytes
from ..operations.creation.typed_storage import TypedStorage
from ..operations.creation.untyped_storage import UntypedStorage
from ..record.devices import canonical_device, device, host_device
from ..tensors.kinds import layout_of
from ..tensors.tensor import MetaValue, Tensor, storage_size
from .host_tensors import HostStorage, HostTensor
from .permissions import add_rebuilder
from .trusted import read_trusted

add_rebuilder("torch.serialization._get_layout", layout_of)
add_rebuilder("torch._utils._rebuild_meta_tensor_no_storage", rebuild_without_storage)
add_rebuilder("torch._utils._rebuild_wrapper_subclass", rebuild_wrapper)
add_rebuilder("torch._tensor._rebuild_from_type_v2", rebuild_with_state)


def load_safetensors(path: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name, on a device."""
    place = _place(device)

    def make(host: HostTensor) -> Tensor:
        return from_bytes(host.contiguous_bytes(), tuple(host.shape), host.dtype, place)

    return files.read_safetensors(path, make)[0]  # type: ignore[return-value]


def save_safetensors(tensors: dict[str, Tensor], path: Any, metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, atomically."""
    files.write_safetensors(path, {name: contiguous_host(each) for name, each in tensors.items()}, metadata)


def contiguous_host(tensor: Tensor) -> HostTensor:
    """Return a tensor's elements in the host's memory, in row-major order."""
    source = tensor.detach().contiguous()
    if storage_size(source) != source.numel():
        source = source.clone()
    data = source._engine.read(source._storage.value)
    return HostTensor.from_bytes(source.dtype, tuple(source.shape), data)


def _check_target(f: object, older: bool) -> None:
    """Raise what :func:`save` does where there is nothing to write to."""
    if hasattr(f, "write"):
        return
    if not isinstance(f, str | os.PathLike):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
        )
    folder = os.path.dirname(os.fsdecode(f))
    # PyTorch's archives are made by a library of their own, older files by Python's open.
    if folder and not older and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object of tensors and plain containers to a file that PyTorch reads with ``weights_only=True``.

    The file says of every storage that it was on the CPU, wherever it was: a file that names a ``webgpu`` device is one that
    PyTorch reads only with ``map_location``. ``_use_new_zipfile_serialization=False`` writes the format before PyTorch 1.6; the
    other arguments count for nothing.

    Raises:
        RuntimeError: several tensors of different types look at one storage, or the file cannot be written.
        AttributeError: ``f`` is neither a path nor can it be written.
    """
    _check_target(f, not _use_new_zipfile_serialization)
    storages: dict[tuple[int, int], HostStorage] = {}
    kinds: dict[int, dtype] = {}
    quantized: dict[int, HostStorage] = {}

    def quantized_storage(integers: HostStorage, kind: dtype) -> HostStorage:
        return quantized.setdefault(id(integers), HostStorage(kind, integers.data))

    def describe(value: Any) -> HostTensor | HostStorage | None:
        if isinstance(value, TypedStorage):
            plain = value.dtype.stored if value.dtype in QUANTIZED else value.dtype
            described = describe(value.untyped().as_elements(plain))
            if not isinstance(described, HostTensor):
                return described
            return described.storage if plain is value.dtype else quantized_storage(described.storage, value.dtype)
        if isinstance(value, UntypedStorage):
            return HostStorage(uint8, value.host_bytes(), typed=False)
        if not isinstance(value, Tensor) or isinstance(value._storage.value, MetaValue):
            return None
        if type(value).__reduce_ex__ is not Tensor.__reduce_ex__:
            return None
        storage = value._storage
        # Storages of one number are the same memory; of what has no elements there is nothing that could be of two types.
        if storage.value.numel and kinds.setdefault(storage.number, value.dtype) is not value.dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        # One made for this call alone may have the place of another that is gone.
        key = storage.number, id(storage)
        held = storages.get(key)
        if held is None or held.dtype is not value.dtype:
            data = storage.value.engine.read(storage.value)
            held = storages[key] = HostStorage(value.dtype, data)
        is_parameter = type(value).__name__ == "Parameter"
        host = HostTensor(
            held, tuple(value.shape), value.stride(), value.storage_offset(), value.requires_grad, is_parameter
        )
        host.kind = None if is_parameter or type(value) is Tensor else type(value)
        host.attributes = _state(value)
        return host

    with _failing_as_archives(hasattr(f, "write") or not _use_new_zipfile_serialization):
        files.write_pickle(f, obj, describe, not _use_new_zipfile_serialization)


@contextmanager
def _failing_as_archives(plain: bool) -> Generator[None]:
    """Raise PyTorch's error of an archive that cannot be written, but for files that Python itself opens."""
    try:
        yield
    except OSError as error:
        if plain:
            raise
        raise RuntimeError(f"open file failed with strerror: {error}") from error


def _state(value: Tensor) -> object:
    """Return what Python code gave a tensor: its class's answer if it has one, else the attributes."""
    own = getattr(type(value), "__getstate__", None)
    if own is not getattr(object, "__getstate__", None):
        return value.__getstate__()  # type: ignore[attr-defined]
    return kept_attributes(value)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options: Any,
) -> Any:
    """Read a file ``torch.save`` wrote: tensors, plain containers, and what ``torch.serialization.add_safe_globals`` lets files
    name; anything else is refused by name.

    ``weights_only=False`` reads a file that you trust as Python's pickle does: it imports what the file names and calls what it
    says, which can be any code. ``pickle_module`` (whose ``Unpickler`` then reads it), ``encoding`` and ``errors`` are for such
    files.

    ``map_location``: where storages go: a device, a dict from names of devices to devices, or a function of the storage and the
    name of its device that returns the storage (or None). ``"cpu"`` means the host's memory: device ``python`` where no CPU
    backend is installed.

    Raises:
        TypeError: another ``map_location``, or an option that there is none of.
        RuntimeError: ``pickle_module`` with ``weights_only=True``.
        AttributeError: ``f`` is neither a path nor can it be read.
        ValueError: ``mmap`` of what is no path.
    """
    unknown = options.keys() - {"encoding", "errors"}
    if unknown:
        raise TypeError(f"load() got an unexpected keyword argument '{min(unknown)}'")
    if not isinstance(f, str | os.PathLike):
        _check_readable(f, mmap)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    trusted = weights_only is False or pickle_module is not None
    _check_map(map_location)
    storages: dict[int, Any] = {}

    def make(host: HostTensor) -> Tensor:
        key, kind = id(host.storage), host.dtype.stored if host.dtype in QUANTIZED else host.dtype
        found = storages.get(key)
        if found is None:
            data = memoryview(host.storage.data).cast("B")  # type: ignore[arg-type]
            place = _wanted_place(data, host.storage.location, map_location)
            flat = from_bytes(data, (len(data) // kind.itemsize,), kind, place)
            found = storages[key] = (flat, host.storage)
        base = found[0]
        view = layout(tuple(host.shape), tuple(host.strides), host.storage_offset)
        result = Tensor._from_storage(base._storage, view, kind, base.device)
        result = result.conj() if host.conjugated else result
        result = result.neg() if host.negated else result
        if host.is_parameter:
            kind = next((each for each in Tensor.__subclasses__() if each.__name__ == "Parameter"), Tensor)
            result = Tensor._make_subclass(kind, result, host.requires_grad)
        elif host.requires_grad:
            result.requires_grad_()
        result.__dict__.update(host.attributes)
        return result

    def make_storage(host: HostStorage) -> TypedStorage:
        return TypedStorage.of_tensor(make(HostTensor(host, (len(host.data) // host.dtype.itemsize,))))

    options.setdefault("encoding", "utf-8")
    if not trusted:
        return files.read_pickle(f, make, make_storage, encoding=options["encoding"])
    return files.read_pickle(
        f, make, make_storage, lambda data, builder: read_trusted(data, builder, pickle_module, **options)
    )


def _check_map(wanted: object) -> None:
    """Raise a TypeError where ``map_location`` is none; what is wrong with a device is not the file's fault, either."""
    if isinstance(wanted, str | device):
        _place(wanted)
    elif not (wanted is None or isinstance(wanted, dict) or callable(wanted)):
        raise TypeError(
            f"map_location must be a device, a string naming one, a dict or a function, not {type(wanted).__name__}"
        )


def _check_readable(file: object, mapped: bool | None) -> None:
    """Raise PyTorch's error where an object that is no path cannot be read from, or is to be mapped into memory."""
    if mapped:
        raise ValueError("f must be a file path in order to use the mmap argument")
    try:
        file.seek(file.tell())  # type: ignore[attr-defined]
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        ) from None


def _wanted_place(data: memoryview, location: str, wanted: Any) -> device:
    """Return where ``map_location`` wants a storage of these bytes that was saved on ``location``."""
    if isinstance(wanted, dict):
        wanted = wanted.get(location)
    elif callable(wanted) and not isinstance(wanted, device):
        storage: Any = wanted(UntypedStorage.of_bytes(data), location)
        wanted = None if storage is None else storage.device
    if not (wanted is None or isinstance(wanted, str | device)):
        raise TypeError(f"map_location must be a device or a string naming one, not {type(wanted).__name__}")
    if wanted is None and location.partition(":")[0] in ("cuda", "xpu", "mps"):
        kind = location.partition(":")[0]
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to "
            "the CPU."
        )
    return _place(wanted or "cpu")


def _place(wanted: str | device) -> device:
    """Return a device that was asked for; what is to be on the CPU goes wherever the host's bytes are."""
    found = canonical_device(wanted)
    return host_device() if found.type == "cpu" else found
