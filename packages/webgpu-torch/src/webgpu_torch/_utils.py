"""Tensors joined into one and cut apart again, and other small functions that libraries take from ``torch._utils``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from types import ModuleType

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .compiler import is_compiling as is_compiling


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """Return the elements of all tensors, one after the other, in one dimension."""
    return torch.cat([each.contiguous().view(-1) for each in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return views of a one-dimensional tensor with the shapes of others, in their order."""
    made, start = [], 0
    for each in tensors:
        made.append(flat.narrow(0, start, each.numel()).view(each.shape))
        start += each.numel()
    return tuple(made)


def _element_size(dtype: torch.dtype) -> int:
    """Return the bytes of one element of a type.

    Raises:
        RuntimeError: it is no type.
    """
    if not isinstance(dtype, torch.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """Return the kind of accelerator there is; None if there is none."""
    from .accelerator import current_accelerator

    found = current_accelerator()
    return None if found is None else found.type


def _get_device_module(device_type: str) -> ModuleType:
    """Return the module of a kind of device, such as ``torch.cpu``.

    Raises:
        RuntimeError: there is none.
    """
    found = getattr(importlib.import_module("webgpu_torch"), device_type, None)
    if found is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return found


def _get_all_device_indices() -> list[int]:
    """Return the numbers of the accelerators."""
    return list(range(torch.webgpu.device_count()))


def _is_privateuse1_backend_available() -> bool:
    """Return False: PyTorch's own slot for other devices is free."""
    return False


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterable[Sequence[Tensor]]:
    """Yield groups of tensors of one type whose bytes stay below a limit, in their order for each type."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for each in tensors:
        group = groups.setdefault(each.dtype, [])
        if group and sum(other.nbytes for other in group) + each.nbytes > size_limit:
            yield groups.pop(each.dtype)
            group = groups.setdefault(each.dtype, [])
        group.append(each)
    yield from groups.values()
