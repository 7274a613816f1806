"""Files of tensors: safetensors and PyTorch's zip format, over host bytes."""

from __future__ import annotations

_SOURCES = {
    "HostStorage": "host",
    "HostTensor": "host",
    "SafetensorError": "safetensors",
    "UnpicklingError": "pickle_format",
    "read_pickle": "pickle_format",
    "read_safetensors": "safetensors",
    "read_sharded": "safetensors",
    "read_sharded_index": "safetensors",
    "serialize_safetensors": "safetensors",
    "write_pickle": "pickle_writer",
    "write_safetensors": "safetensors",
}

__all__ = sorted(_SOURCES)


def __getattr__(name: str) -> object:
    # Nobody who does not open a file should pay for the import of its reader.
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_SOURCES[name]}"), name)
    globals()[name] = value
    return value
