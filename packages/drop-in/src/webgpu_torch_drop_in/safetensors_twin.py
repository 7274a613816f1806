"""The package safetensors in Python: what libraries of models use of it, where the compiled one is not installed.

There is none for Python in web pages that libraries accept; elsewhere the compiled package is used.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType, TracebackType
from typing import Any

from webgpu_torch import Tensor
from webgpu_torch_core.files.host_tensors import HostTensor
from webgpu_torch_core.files.safetensors import (
    CODES,
    SafetensorError,
    parse_safetensors,
    read_safetensors,
    serialize_safetensors,
)
from webgpu_torch_core.files.tensor_files import contiguous_host, save_safetensors
from webgpu_torch_core.operations.creation.factories import from_bytes
from webgpu_torch_core.record.devices import device as torch_device
from webgpu_torch_core.record.devices import host_device

File = str | os.PathLike[str]
Place = str | int | torch_device
#: the version whose interface this is
VERSION = "0.8.0"


def _on(host: HostTensor, wanted: Place) -> Tensor:
    """Return a file's tensor on a device; ``"cpu"``, which readers are told by default, is the host's memory."""
    place = host_device() if str(wanted) == "cpu" else torch_device(wanted)
    return from_bytes(host.contiguous_bytes(), tuple(host.shape), host.dtype, place)


class Slice:
    """A tensor in a file, read when it is indexed."""

    def __init__(self, host: HostTensor, place: Place) -> None:
        self._host, self._place = host, place

    def get_shape(self) -> list[int]:
        """Return its shape."""
        return list(self._host.shape)

    def get_dtype(self) -> str:
        """Return its element type as files name it: ``"F32"``."""
        return CODES[self._host.dtype.name]

    def __getitem__(self, index: object) -> Tensor:
        return _on(self._host, self._place)[index]


class safe_open:
    """An open file; each tensor is read when it is asked for."""

    def __init__(self, filename: File, framework: str = "pt", device: Place = "cpu", **options: object) -> None:
        self._device = device
        found, self._metadata = read_safetensors(filename)
        self._tensors: dict[str, Any] = found

    def __enter__(self) -> safe_open:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tensors = {}

    def keys(self) -> list[str]:
        """Return the tensors' names."""
        return list(self._tensors)

    offset_keys = keys

    def metadata(self) -> dict[str, str] | None:
        """Return the file's metadata, None where it has none."""
        return self._metadata or None

    def get_tensor(self, name: str) -> Tensor:
        """Return a tensor.

        Raises:
            SafetensorError: the file has none of that name.
        """
        return _on(self._found(name), self._device)

    def get_slice(self, name: str) -> Slice:
        """Return something to index, which reads a tensor then.

        Raises:
            SafetensorError: the file has none of that name.
        """
        return Slice(self._found(name), self._device)

    def _found(self, name: str) -> HostTensor:
        if name not in self._tensors:
            raise SafetensorError(f"File does not contain tensor {name}")
        return self._tensors[name]


def load(data: bytes) -> dict[str, Tensor]:
    """Return the tensors in a file's bytes."""
    found: Any = parse_safetensors(memoryview(data), "data", lambda host: _on(host, "cpu"))[0]
    return found


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file with these tensors."""
    return b"".join(serialize_safetensors({name: contiguous_host(each) for name, each in tensors.items()}, metadata))


def load_file(filename: File, device: Place = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a file."""
    found: Any = read_safetensors(filename, lambda host: _on(host, device))[0]
    return found


def save_file(tensors: dict[str, Tensor], filename: File, metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a file."""
    save_safetensors(tensors, filename, metadata)


def storage_ptr(tensor: Tensor) -> int:
    """Return what identifies a tensor's memory."""
    return tensor.untyped_storage().data_ptr()


def storage_size(tensor: Tensor) -> int:
    """Return the bytes of a tensor's memory."""
    return tensor.untyped_storage().nbytes()


def is_brought() -> bool:
    """Return whether ``import safetensors`` gives these functions."""
    return vars(sys.modules.get("safetensors", sys)).get("safe_open") is safe_open


def bring() -> None:
    """Let ``import safetensors`` give these functions where it would find nothing."""
    if "safetensors" in sys.modules or importlib.util.find_spec("safetensors") is not None:
        return
    package, functions = ModuleType("safetensors"), ModuleType("safetensors.torch")
    vars(package).update(
        __path__=[], __version__=VERSION, torch=functions, safe_open=safe_open, SafetensorError=SafetensorError
    )
    vars(functions).update(
        {each.__name__: each for each in (load, save, load_file, save_file, storage_ptr, storage_size)}
    )
    for module in (package, functions):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, is_package=module is package)
        sys.modules[module.__name__] = module
