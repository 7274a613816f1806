"""The memory behind tensors, as ``torch.storage``."""

from __future__ import annotations

from typing import TypeAlias

from webgpu_torch_core import TypedStorage as TypedStorage
from webgpu_torch_core import UntypedStorage as UntypedStorage
from webgpu_torch_core import dtype as _dtype
from webgpu_torch_core.operations.creation.typed_storage import STORAGE_NAMES as _STORAGE_NAMES

Storage: TypeAlias = UntypedStorage


def _dtype_to_storage_type_map() -> dict[_dtype, str]:
    """Return the older names of storages by their elements' type."""
    return dict(_STORAGE_NAMES)


def _storage_type_to_dtype_map() -> dict[str, _dtype]:
    """Return the types of elements by the older names of storages."""
    return {name: kind for kind, name in _STORAGE_NAMES.items()}


#: whether every use of a typed storage is to warn; none does
_always_warn = [False]


def _get_always_warn_typed_storage_removal() -> bool:
    """Return what was last asked for."""
    return _always_warn[0]


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    """Keep what is asked for, which changes nothing: typed storages stay, and do not warn."""
    _always_warn[0] = always_warn
