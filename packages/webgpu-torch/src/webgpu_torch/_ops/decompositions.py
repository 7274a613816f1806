"""Functions that PyTorch composes of operations before ``__torch_dispatch__`` sees any, written with those operations."""

from __future__ import annotations

from collections.abc import Callable

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.torch_dispatch import Value
from webgpu_torch_core.ir.layouts import infer_size, wrap_dimension
from webgpu_torch_core.record.grad_mode import recording


def _linear(input: Value, weight: Value, bias: Value = None) -> Value:
    if bias is not None and input.dim() == 2:
        return torch.addmm(bias, input, weight.t())
    result = input.matmul(weight.t() if weight.dim() == 2 else weight)
    return result if bias is None else result + bias


def _matmul(input: Value, other: Value) -> Value:
    ours, theirs = input.dim(), other.dim()
    if ours == 1 and theirs == 1:
        return input.dot(other)
    if ours == 2 and theirs == 2:
        return input.mm(other)
    if ours == 1:
        return _matmul(input.unsqueeze(0), other).squeeze(-2)
    if theirs == 1:
        return _matmul(input, other.unsqueeze(1)).squeeze(-1)
    if theirs == 2:
        return input.reshape(-1, input.shape[-1]).mm(other).view(*input.shape[:-1], other.shape[-1])
    batch = torch.broadcast_shapes(input.shape[:-2], other.shape[:-2])
    left = input.expand(*batch, *input.shape[-2:]).reshape(-1, *input.shape[-2:])
    right = other.expand(*batch, *other.shape[-2:]).reshape(-1, *other.shape[-2:])
    return left.bmm(right).view(*batch, input.shape[-2], other.shape[-1])


def _shape_of(args: tuple[Value, ...]) -> tuple[int, ...]:
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else args


def _reshape(input: Value, *args: Value, shape: Value = None) -> Value:
    sizes = infer_size(_shape_of(args) if shape is None else shape, input.numel())
    contiguous = input if input.is_contiguous() else input.clone(memory_format=torch.contiguous_format)
    return contiguous.view(sizes)


def _flatten(input: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    if input.dim() == 0:
        return input.reshape(1)
    start, end = wrap_dimension(start_dim, input.dim()), wrap_dimension(end_dim, input.dim())
    return input if start == end else input.reshape(*input.shape[:start], -1, *input.shape[end + 1 :])


def _to(
    input: Value,
    *args: Value,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Value = None,
    **kwargs: Value,
) -> Value:
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for each in args:
        if isinstance(each, Tensor):
            device, dtype = each.device, each.dtype
        elif isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, bool):
            pass
        elif each is not None:
            device = each
    device = None if device is None else torch.device(device)
    if not copy and device in (None, input.device) and dtype in (None, input.dtype) and memory_format is None:
        return input
    options: dict[str, Value] = {"dtype": dtype, "device": device, "memory_format": memory_format}
    from .implementations import operation

    packet: Value = operation("_to_copy")
    given = {name: value for name, value in options.items() if value is not None}
    return packet.default(input, **given, **({"non_blocking": True} if non_blocking else {}))


def _typed(dtype: torch.dtype) -> Callable[..., Value]:
    return lambda input, memory_format=None: _to(input, dtype=dtype, memory_format=memory_format)


def _contiguous(input: Value, memory_format: Value = torch.contiguous_format) -> Value:
    return input if input.is_contiguous(memory_format=memory_format) else input.clone(memory_format=memory_format)


def _dropout(input: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    if not training or p == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    kept = torch.empty_like(input).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(kept) if inplace else input * kept


def _getitem(input: Value, index: Value) -> Value:
    """Return the parts of a tensor by numbers, slices, new dimensions, and tensors for the rest."""
    from .implementations import operation

    result, positions = index_parts(input, index)
    packet: Value = operation("index")
    if positions:
        return packet.Tensor(result, positions)
    return result.view(result.shape) if result is input else result


def index_parts(input: Value, index: Value) -> tuple[Value, list[Value]]:
    """Return the view that numbers, slices and new dimensions of an index give, and the tensors for the rest, by dimension."""
    from .implementations import operation

    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(1 if not isinstance(each, Tensor) or each.dtype is not torch.bool else each.dim() for each in parts
                if each is not None and each is not Ellipsis)  # fmt: skip
    if not any(each is Ellipsis for each in parts):
        parts.append(Ellipsis)
    place = next(number for number, each in enumerate(parts) if each is Ellipsis)
    parts[place : place + 1] = [slice(None)] * (input.dim() - taken)
    dim, positions, result = 0, [], input
    for each in parts:
        if each is None:
            result = result.unsqueeze(dim)
            positions.append(None)
        elif isinstance(each, slice):
            if each != slice(None):
                packet: Value = operation("slice")
                step = 1 if each.step is None else each.step
                result = packet.Tensor(result, dim, each.start, each.stop, *([step] if step != 1 else []))
            positions.append(None)
        elif isinstance(each, int) and not isinstance(each, bool):
            result = result.select(dim, each)
            continue
        else:
            where = each if isinstance(each, Tensor) else torch.tensor(each, device=input.device)
            positions.append(where)
            dim += where.dim() if where.dtype is torch.bool else 1
            continue
        dim += 1
    while positions and positions[-1] is None:
        positions.pop()
    return result, positions


def _written(input: Value, index: Value, value: Value) -> Value:
    """Return a copy of a tensor with a part written."""
    result = input.clone()
    result[index] = value
    return result


def _setitem(input: Value, index: Value, value: Value) -> None:
    """Write a part of a tensor: as a view of it, or, where gradients follow, all of it anew."""
    from .implementations import own_operation

    if recording.enabled and (input.requires_grad or getattr(value, "requires_grad", False)):
        # What is written over cannot be what is kept for the gradient.
        input.copy_(own_operation("torch.written", _written).default(input.clone(), index, value))
        return
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(each, Tensor | list | bool) for each in parts):
        input.copy_(own_operation("torch.written", _written).default(input, index, value))
    elif isinstance(value, Tensor):
        _getitem(input, index).copy_(value)
    else:
        _getitem(input, index).fill_(value)


#: functions and methods by name
DECOMPOSITIONS: dict[str, Callable[..., Value]] = {
    "linear": _linear, "matmul": _matmul, "reshape": _reshape, "flatten": _flatten, "to": _to, "contiguous": _contiguous,
    "dropout": _dropout, "__getitem__": _getitem, "__setitem__": _setitem,
    "__rmatmul__": lambda input, other: _matmul(other, input), "__rdiv__": lambda input, other: input.reciprocal() * other,
    "__len__": lambda input: _length(input), "__iter__": lambda input: iter(input.unbind(0)),
    "float": _typed(torch.float32), "double": _typed(torch.float64), "half": _typed(torch.float16),
    "bfloat16": _typed(torch.bfloat16), "int": _typed(torch.int32), "long": _typed(torch.int64), "bool": _typed(torch.bool),
    "short": _typed(torch.int16), "char": _typed(torch.int8), "byte": _typed(torch.uint8),
    "cpu": lambda input, memory_format=None: _to(input, device="cpu", memory_format=memory_format),
    "view_as": lambda input, other: input.view(tuple(other.shape)),
    "reshape_as": lambda input, other: input.reshape(tuple(other.shape)),
    "expand_as": lambda input, other: input.expand(tuple(other.shape)),
    "type_as": lambda input, other: _to(input, dtype=other.dtype, device=other.device),
    "__bool__": lambda input: bool(input.item()), "__int__": lambda input: int(input.item()),
    "__float__": lambda input: float(input.item()), "__complex__": lambda input: complex(input.item()),
    "__index__": lambda input: input.item().__index__(), "__invert__": lambda input: input.bitwise_not(),
    "chunk": lambda input, chunks, dim=0: input.split(max(1, -(-input.shape[dim] // chunks)), dim),
    "softmax": lambda input, dim, *args, **kwargs: _rows("_softmax", input, dim, *args, **kwargs),
    "log_softmax": lambda input, dim, *args, **kwargs: _rows("_log_softmax", input, dim, *args, **kwargs),
}  # fmt: skip
#: properties by name
PROPERTIES: dict[str, Callable[[Value], Value]] = {
    "data": lambda input: input.detach(),
    "T": lambda input: input.t() if input.dim() == 2 else input.permute(tuple(reversed(range(input.dim())))),
    "mT": lambda input: input.transpose(-2, -1),
    "H": lambda input: input.transpose(0, 1).conj(),
    "mH": lambda input: input.transpose(-2, -1).conj(),
}


def _length(input: Value) -> int:
    if input.dim() == 0:
        raise TypeError("len() of a 0-d tensor")
    return input.shape[0]


def _rows(name: str, input: Value, dim: int, *_: Value, dtype: Value = None, **__: Value) -> Value:
    from .implementations import operation

    for each in _:
        dtype = each if isinstance(each, torch.dtype) else dtype
    packet: Value = operation(name)
    return packet.default(input if dtype is None else _to(input, dtype=dtype), dim, False)
