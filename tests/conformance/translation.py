"""Values of PyTorch's samples as ours, and ours as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from database import ours, rebound, torch
from webgpu_torch_core.operations.creation.conversion import contiguous_format
from webgpu_torch_core.operations.creation.factories import from_bytes


class Untranslatable(Exception):
    """A sample uses what we do not have, such as an element type."""


def kind(dtype: Any) -> Any:
    """Return our element type of the same name."""
    name = str(dtype).removeprefix("torch.")
    found = getattr(ours, name, None)
    if found is None:
        raise Untranslatable(f"no element type {name}")
    return found


def tensor(value: Any, device: str) -> Any:
    """Return a leaf with the same storage, strides, offset and ``requires_grad``."""
    if value.layout is not torch.strided:
        return rebuilt(value, lambda part: tensor(part, device), ours, kind(value.dtype))
    if value.is_meta:
        return ours.empty_strided(tuple(value.shape), value.stride(), dtype=kind(value.dtype), device="meta")
    source = value.detach().resolve_conj().resolve_neg()
    whole = torch.empty(0, dtype=source.dtype).set_(source.untyped_storage())
    data = whole.view(torch.uint8).numpy().tobytes() if whole.numel() else b""
    if whole.is_complex() and whole.numel():
        data = torch.view_as_real(whole).contiguous().view(torch.uint8).numpy().tobytes()
    flat = from_bytes(data, (whole.numel(),), kind(source.dtype), device)
    result = flat.as_strided(tuple(source.shape), source.stride(), source.storage_offset()).detach()
    return result.requires_grad_() if value.requires_grad else result


def rebuilt(value: Any, part: Callable[[Any], Any], library: Any, dtype: Any) -> Any:
    """Return a leaf of a library with the layout and the parts of a sparse tensor, each part translated."""
    wants, value = value.requires_grad, value.detach()
    layout, size = getattr(library, str(value.layout).removeprefix("torch.")), tuple(value.shape)
    if str(value.layout) == "torch.sparse_coo":
        parts, more = (value._indices(), value._values()), {"is_coalesced": value.is_coalesced()}
        make = library.sparse_coo_tensor
    else:
        rows = str(value.layout) in ("torch.sparse_csr", "torch.sparse_bsr")
        places = (value.crow_indices(), value.col_indices()) if rows else (value.ccol_indices(), value.row_indices())
        parts, more, make = (*places, value.values()), {"layout": layout}, library.sparse_compressed_tensor
    return make(*map(part, parts), size, dtype=dtype, **more).requires_grad_(wants)


def _module(value: Any) -> Any:
    """Return our module of the same class and plain attributes, such as the distance that a loss is given."""
    found = getattr(ours.nn, type(value).__name__, None)
    if found is None or list(value.parameters()) or list(value.buffers()):
        raise Untranslatable(f"a module, {type(value).__name__}")
    result = found()
    for name, each in vars(value).items():
        if not name.startswith("_") and isinstance(each, bool | int | float | str):
            setattr(result, name, each)
    return result


class Translator:
    """Translates one sample; the same tensor stays the same tensor."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        """Return our counterpart of a value, containers included."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self.known:
                self.known[id(value)] = (value, tensor(value, self.device))
            return self.known[id(value)][1]
        if isinstance(value, torch.Size):
            return ours.Size(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        if isinstance(value, dict):
            return {key: self(each) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(self(value.start), self(value.stop), self(value.step))
        return self._leaf(value)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return kind(value)
        if isinstance(value, torch.device):
            return ours.device(self.device) if value.type == "cpu" else ours.device(str(value))
        if isinstance(value, str):
            return self.device if value == "cpu" else value
        if isinstance(value, torch.layout):
            return getattr(ours, str(value).removeprefix("torch."))
        if isinstance(value, torch.memory_format):
            return getattr(ours, str(value).removeprefix("torch."))
        if isinstance(value, torch.Generator):
            return ours.Generator(device=self.device).manual_seed(value.initial_seed())
        if isinstance(value, torch.nn.Module):
            return _module(value)
        return rebound(value)


def to_torch(value: Any) -> Any:
    """Return a result of ours with its tensors as PyTorch's."""
    if isinstance(value, ours.Tensor):
        return _to_torch(value)
    if isinstance(value, ours.dtype):
        return getattr(torch, value.name)
    if isinstance(value, ours.Size):
        return torch.Size(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(map(to_torch, value))
    if isinstance(value, list | tuple):
        return type(value)(map(to_torch, value))
    if isinstance(value, dict):
        return {key: to_torch(each) for key, each in value.items()}
    return value


def _to_torch(value: Any) -> Any:
    dtype = getattr(torch, value.dtype.name)
    if value.layout is not ours.strided:
        return rebuilt(value, to_torch, torch, dtype)
    if value.numel() == 0:
        return torch.empty(tuple(value.shape), dtype=dtype)
    plain = value.detach().clone(memory_format=contiguous_format)
    data = bytearray(plain._engine.read(plain._storage.value))
    return torch.frombuffer(data, dtype=dtype).reshape(tuple(value.shape)).clone()


def tensors(value: Any, kind_of: type, found: list[Any] | None = None) -> list[Any]:
    """Return the tensors of a class inside containers, in order."""
    found = [] if found is None else found
    if isinstance(value, kind_of):
        found.append(value)
    elif isinstance(value, list | tuple):
        for each in value:
            tensors(each, kind_of, found)
    elif isinstance(value, dict):
        for each in value.values():
            tensors(each, kind_of, found)
    return found


Run = Callable[..., Any]
