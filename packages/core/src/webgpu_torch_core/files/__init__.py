"""Files of tensors: safetensors and PyTorch's zip format, over host bytes."""

from __future__ import annotations

from importlib import import_module

# Read by type checkers as true; typing itself would cost import time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from webgpu_torch_core.files.host_tensors import HostStorage, HostTensor
    from webgpu_torch_core.files.pickle_format import UnpicklingError, read_pickle
    from webgpu_torch_core.files.pickle_writer import write_pickle
    from webgpu_torch_core.files.safetensors import (
        SafetensorError,
        read_safetensors,
        read_sharded,
        read_sharded_index,
        serialize_safetensors,
        write_safetensors,
    )
    from webgpu_torch_core.files.tensor_files import load_safetensors, save_safetensors

__all__ = [
    "load_safetensors", "save_safetensors", "HostStorage", "HostTensor", "SafetensorError", "UnpicklingError",
    "read_pickle", "read_safetensors", "read_sharded", "read_sharded_index", "serialize_safetensors", "write_pickle",
    "write_safetensors",
]  # fmt: skip

_SOURCES = {
    "HostStorage": "host_tensors",
    "HostTensor": "host_tensors",
    "load_safetensors": "tensor_files",
    "save_safetensors": "tensor_files",
    "UnpicklingError": "pickle_format",
    "read_pickle": "pickle_format",
    "write_pickle": "pickle_writer",
}


def __getattr__(name: str) -> object:
    # Nobody who does not open a file should pay for the import of its reader.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("." + _SOURCES.get(name, "safetensors"), __name__), name)
    globals()[name] = value
    return value
