"""What computes each of PyTorch's operations: this library's function of the name, or one of those here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from webgpu_torch_core import Tensor, float32
from webgpu_torch_core.dispatch.torch_dispatch import Value

from .correspondences import computing
from .overloads import OpOverloadPacket
from .schemas import schemas_of

#: how PyTorch names operations of namespaces
_PREFIXES = ("special", "linalg", "fft")
#: operations that have another name here
_OTHER_NAMES = {
    "_local_scalar_dense": "item", "_unsafe_view": "view", "lift_fresh": "view_as", "lift": "view_as",
    "_reshape_alias": "as_strided", "_conj": "conj",
}  # fmt: skip


def _slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Return the view ``input[start:end:step]`` along a dimension."""
    dim += input.ndim if dim < 0 else 0
    return input[(slice(None),) * dim + (slice(start, end, step),)]


def _to_copy(input: Value, *, dtype: Value = None, device: Value = None, non_blocking: bool = False, memory_format: Value = None,
             layout: Value = None, pin_memory: Value = None) -> Tensor:  # fmt: skip
    """Return a copy with another type or on another device."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    place = input.device if device is None else device
    return input.to(place, dtype or input.dtype, non_blocking=non_blocking, copy=True, **options)


def _indices(indices: Sequence[Tensor | None]) -> tuple[Value, ...]:
    return tuple(slice(None) if each is None else each for each in indices)


def _index(input: Value, indices: Sequence[Tensor | None]) -> Tensor:
    """Return the elements at positions; all of a dimension where there are none."""
    return input[_indices(indices)]


def _index_put_(input: Value, indices: Sequence[Tensor | None], values: Value, accumulate: bool = False) -> Tensor:
    """Write at positions, and return the tensor."""
    if any(each is None for each in indices):
        if accumulate:
            values = input[_indices(indices)] + values
        input[_indices(indices)] = values
        return input
    return input.index_put_(tuple(indices), values, accumulate)


def _index_put(input: Value, indices: Sequence[Tensor | None], values: Value, accumulate: bool = False) -> Tensor:
    """Return a copy with values at positions."""
    return _index_put_(input.clone(), indices, values, accumulate)


def _softmax(input: Value, dim: int, half_to_float: bool) -> Tensor:
    """Return the softmax along a dimension."""
    return input.softmax(dim, dtype=float32 if half_to_float else None)


def _log_softmax(input: Value, dim: int, half_to_float: bool) -> Tensor:
    """Return the logarithm of the softmax along a dimension."""
    return input.log_softmax(dim, dtype=float32 if half_to_float else None)


def _alias(input: Value) -> Tensor:
    """Return a view of everything."""
    return input.view(input.shape)


def _sym_size(input: Value, dim: int) -> int:
    """Return the size of a dimension."""
    return input.shape[dim]


_OWN: dict[str, Callable[..., object]] = {
    "sym_size": _sym_size,
    "slice": _slice, "_to_copy": _to_copy, "index": _index, "index_put": _index_put, "index_put_": _index_put_,
    "_softmax": _softmax, "_log_softmax": _log_softmax, "alias": _alias, "lift_fresh": _alias, "lift": _alias,
}  # fmt: skip


def _found(name: str) -> Callable[..., object] | None:
    from webgpu_torch_nn.functional import native

    import webgpu_torch
    from webgpu_torch.nn import functional

    places: list[Value] = [webgpu_torch, native, webgpu_torch.Tensor, functional]
    for prefix in _PREFIXES:
        if name.startswith(f"{prefix}_"):
            places.insert(0, getattr(webgpu_torch, prefix))
            name = name.removeprefix(f"{prefix}_")
    for place in places:
        found = getattr(place, name, None)
        if callable(found) and not isinstance(found, type) and not getattr(found, "is_stub", False):
            return found
    return None


@functools.cache
def operation(name: str) -> OpOverloadPacket | None:
    """Return an operation of ``torch.ops.aten``; None if this library has no function of the name."""
    function = _OWN.get(name) or computing(name, schemas_of(name)) or _found(_OTHER_NAMES.get(name, name))
    return None if function is None else OpOverloadPacket(name, function)


#: the operations that stand for functions, by name, the first of each
_own: dict[str, OpOverloadPacket] = {}


@functools.cache
def own_operation(path: str, function: Callable[..., object]) -> OpOverloadPacket:
    """Return what stands for a function that is no operation of PyTorch's, under ``torch.ops.webgpu_torch``."""
    name = path.rpartition(".")[2].strip("_")
    made = OpOverloadPacket(name, function, "webgpu_torch")
    _own.setdefault(name, made)
    return made


def own_named(name: str) -> OpOverloadPacket | None:
    """Return the operation of ``torch.ops.webgpu_torch`` of a name, as programs that were written out call it; None: there is none."""
    function = None if name in _own else _found(name)
    return _own.get(name) if function is None else own_operation(name, function)
