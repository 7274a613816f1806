"""Copies, and conversions to other types and devices."""

from __future__ import annotations

import builtins
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import (
    FLOAT8,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import Layout, broadcast_shapes, real_layout
from ...notices import warn_once
from ...record.devices import canonical_device, device, host_device
from ...record.tape import Value
from ...tensors.memory_formats import (
    CHANNELS_LAST_RANKS,
    contiguous_format,
    dense_layout,
    has_memory_format,
    memory_format,
    suggested_format,
)
from ...tensors.tensor import Tensor, check_supported, empty_tensor, storage_size
from ..common import attach, check_apart, kernel_cache, needs_gradient, record_on
from ..complex.interleaving import complex_alias, copy_real, part_alias, real_alias
from ..elements import is_taken, taking
from ..elementwise.call import default_float
from ..float8.casts import copy_float8
from ..in_place.writing import (
    assign,
    check_distinct,
    check_inference,
    check_leaf,
    check_writable,
    converted,
    refuse_gradient,
    without_repeats,
)
from .factories import as_dtype, filled, from_bytes

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike, Number


@kernel_cache
def cast_kernel(source: Layout, numel: int, kind: dtype, result: dtype, target: Layout) -> Pointwise:
    """Return the kernel that converts a strided operand into a dense result."""
    leaf = ir.load(0, source.offset, source.strides, kind)
    store = Store(0, 0, target.strides, ir.cast(leaf, result))
    return Pointwise(
        (Operand(kind, numel),),
        (Output(result, target.numel, None),),
        (),
        "copy" if kind is result else "cast",
        source.shape,
        (store,),
    )


def copied(input: Tensor, kind: dtype, target: Layout) -> Tensor:
    """Return a copy in an element type and a dense layout, without gradient."""
    own, value = input.dtype, input._storage.value
    if kind in FLOAT8 or own in FLOAT8:
        check_supported(value.engine, kind)
        return copy_float8(input.detach(), kind, target, copied)
    if own.is_complex or kind.is_complex:
        return _copy_complex(input.detach(), kind, target)
    if input._layout.offset and is_taken(input):
        kernel: Pointwise = taking(own, value.numel, kind)
        return record_on(value.engine, input.device, kernel, (value,), (input._layout.offset,), (target,))
    kernel = cast_kernel(input._layout, value.numel, own, kind, target)
    return record_on(value.engine, input.device, kernel, (value,), (), (target,))


def _copy_complex(input: Tensor, kind: dtype, target: Layout) -> Tensor:
    check_supported(input._engine, kind)
    if not input.dtype.is_complex:
        return copy_real(input, kind, target)
    if kind.is_complex:
        return complex_alias(copied(real_alias(input), kind.to_real(), real_layout(target)))
    if kind is bool_:
        return copied(input != 0, kind, target)
    return copied(part_alias(input, 0), kind, target)


@operation("composite")
def clone(input: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """A copy of the elements with gradient; dense strides are kept unless a memory format orders them.

    Raises:
        RuntimeError: a channels-last format for another number of dimensions than it has.
    """
    result = copied(input, input.dtype, dense_layout(input._layout, memory_format))
    return attach(result, "CloneBackward0", (input,), lambda grad: grad)


legacy_contiguous_format = contiguous_format


_OF_NUMBERS = {bool: bool_, float: float64, complex: complex128}


def _is_dtype(value: object) -> bool:
    return isinstance(value, dtype) or value is float or value is int or value is bool or value is complex


def parse_to(
    args: tuple[Any, ...], kind: Any, place: Any, flags: tuple[bool, ...] = (False, False)
) -> tuple[Any, Any, tuple[bool, ...]]:
    """Return the type, the device and the flags (``non_blocking``, ``copy``) that ``to`` was asked for.

    ``args``: a tensor (or a number, for its type), a type, or a device and a type, with flags behind; the others were given by name.

    Raises:
        TypeError: PyTorch has no such form of it.
    """
    rest, named = list(args), (kind, place)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        kind, place = other.dtype, other.device
    elif rest and isinstance(rest[0], bool | float | complex):
        kind = _OF_NUMBERS[rest.pop(0).__class__]
    elif rest and _is_dtype(rest[0]):
        kind = rest.pop(0)
    elif rest:
        place = rest.pop(0)
        if rest:
            kind = rest.pop(0)
    forms = (
        (kind is None or _is_dtype(kind)),
        (place is None or (isinstance(place, str | device | int) and not isinstance(place, bool))),
        len(rest) <= len(flags) and all(isinstance(each, bool) for each in (*rest, *flags)),
        not args or named == (None, None) or (_is_dtype(args[0]) and named[0] is None)
        or (len(args) == 1 and named[1] is None and place is args[0]),
    )  # fmt: skip
    if not all(forms):
        given = ", ".join(each.__class__.__name__ for each in args)
        raise TypeError(f"to() received an invalid combination of arguments - got ({given})")
    return kind, place, (*rest, *flags[len(rest) :])


#: classes of what ``to`` is given that say all by their values
_WANTED = frozenset((bool, int, str, type(None), dtype, device))


@lru_cache(maxsize=1024)
def _wanted(
    args: tuple[object, ...], kind: object, place: object, flags: tuple[bool, ...], classes: tuple[builtins.type, ...]
) -> tuple[dtype | None, device | None, bool]:
    """Return the type, the device and whether a copy is asked for; ``classes`` tell apart arguments that are equal, as 1 and True."""
    del classes
    wanted, where, (_, copy) = parse_to(args, kind, place, flags)
    return as_dtype(wanted), None if where is None else canonical_device(where), copy


@operation("composite", namespace="method")
def to(
    self: Tensor,
    *args: Any,
    dtype: dtype | None = None,
    device: DeviceLike = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:
    """The tensor in another type, on another device or in another memory format; itself where nothing changes."""
    given = (*args, dtype, device, non_blocking, copy)
    known = _WANTED.issuperset(classes := tuple(map(builtins.type, given)))
    kind, place, copy = (_wanted if known else _wanted.__wrapped__)(args, dtype, device, (non_blocking, copy), classes)
    kind = kind or self.dtype
    if kind is self.dtype and (place is None or place is self.device or place == self.device) and not copy:
        # A tensor that is not channels-last counts as contiguous here, whatever its strides.
        if memory_format not in CHANNELS_LAST_RANKS or suggested_format(self._layout) is memory_format:
            return self
        return clone(self, memory_format=memory_format)
    _warn_discarded(self.dtype, kind)
    result = self
    if place is not None and place != self.device:
        # Convert on the side that moves fewer bytes.
        if kind.itemsize < self.dtype.itemsize and self.device.type != "meta":
            result = to(self, dtype=kind)
        source = result
        result = _to_device(source.detach(), place)
        back, own = self.device, source.dtype
        attach(result, "ToCopyBackward0", (source,), lambda grad: converted(grad, own).to(device=back))
    if kind is not result.dtype or result is self:
        own = result.dtype
        converted_copy = copied(result, kind, dense_layout(result._layout, memory_format))
        result = attach(converted_copy, "ToCopyBackward0", (result,), lambda grad: converted(grad, own))
    if memory_format in CHANNELS_LAST_RANKS and not has_memory_format(result._layout, memory_format):
        return clone(result, memory_format=memory_format)
    return result


def _warn_discarded(source: dtype, kind: dtype) -> None:
    if source.is_complex and not kind.is_complex and kind is not bool_:
        warn_once("Casting complex values to real discards the imaginary part")


def _to_device(source: Tensor, place: device) -> Tensor:
    if place.type == "meta":
        flat = empty_tensor((source._layout.numel,), source.dtype, place)
        return Tensor._from_storage(flat._storage, dense_layout(source._layout, None), source.dtype, place)
    dense = _whole(source)
    value = dense._storage.value
    data = seen(value)
    return _uploaded(value.engine.read(value) if data is None else data, dense, place)


def seen(value: Value) -> memoryview | None:
    """Return the bytes of a computed value where they lie, to be read at once; None where the host does not see them."""
    engine: Any = value.engine
    share, buffer = getattr(engine.device, "as_array", None), value.buffer
    if share is None or buffer is None or not (value.numel and engine.device.runs_single):
        return None
    engine.count_read().unread = False
    engine.raise_failed_checks()
    return memoryview(share(buffer, value.dtype, value.numel)).cast("B")


def _whole(source: Tensor) -> Tensor:
    """Return a tensor of the same elements that fill its memory."""
    if source.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return source if fills_memory(source) else clone(source)


def _uploaded(data: bytearray | memoryview, source: Tensor, place: device) -> Tensor:
    """Return a tensor of these bytes on a device, laid out as another."""
    result = from_bytes(data, (storage_size(source),), source.dtype, place)
    return Tensor._from_storage(result._storage, source._layout, source.dtype, place)


def fills_memory(source: Tensor) -> bool:
    """Return whether a tensor's elements fill its memory in row-major order."""
    layout = source._layout
    return layout.is_contiguous and layout.offset == 0 and layout.numel == storage_size(source)


def _conversion(name: str, kind: dtype) -> None:
    def method(self: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
        return to(self, kind, memory_format=memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor as {kind.name}."
    operation("composite", namespace="method")(method)


for _name, _kind in {
    "half": float16, "bfloat16": bfloat16, "float": float32, "double": float64, "bool": bool_, "byte": uint8, "char": int8,
    "short": int16, "int": int32, "long": int64, "cfloat": complex64, "chalf": complex32,
    "cdouble": complex128,
}.items():  # fmt: skip
    _conversion(_name, _kind)


@operation("composite", namespace="method")
def type_as(self: Tensor, other: Tensor | Number) -> Tensor:
    """The tensor in another's type and on its device."""
    return to(self, other)


@operation("composite", namespace="method")
def cpu(self: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """The tensor in the host's memory: on the CPU, or on device ``python`` where no CPU backend is installed."""
    return to(self, device=host_device())


@operation("composite", namespace="method")
async def fetch(self: Tensor) -> Tensor:
    """The elements in the host's memory, of the same shape and type and without gradient: the awaitable twin of reads.

    ``await x.fetch()`` lets other tasks of the event loop run while the device works; whatever reads elements of the tensor
    that it gives (``tolist``, ``item``, ``numpy``, ``print``) waits for nobody. Browsers without JSPI can read in no other way.

    Raises:
        NotImplementedError: the tensor is on device ``meta``.
        RuntimeError: what computes it failed.
    """
    source = self.detach()
    if source.device == host_device():
        return source
    dense = _whole(source)
    return _uploaded(await dense._engine.read_async(dense._storage.value), dense, host_device())


@operation("composite", namespace="method")
def webgpu(self: Tensor, device: DeviceLike = None) -> Tensor:
    """The tensor on a WebGPU device."""
    return to(self, device="webgpu" if device is None else device)


@operation("composite", namespace="method")
def type(self: Tensor, dtype: dtype | str | builtins.type[Any] | None = None, non_blocking: bool = False) -> Any:
    """The tensor in another type, ``torch.Tensor`` for the default one; without one, the name of its class such as ``torch.FloatTensor``.

    Raises:
        TypeError: what is neither a type nor a name of one.
        ValueError: there is no type of the name, or the class is none of a tensor's.
    """
    # A floor above this one: looked up when it is used.
    from ...api.typed_tensors import TYPES, TypedTensorType

    del non_blocking
    if dtype is Tensor or dtype == "torch.Tensor":
        dtype = default_float[0]
    if isinstance(dtype, str):
        if dtype.removeprefix("torch.") not in TYPES:
            raise ValueError(f"invalid type: '{dtype}'; expected one of {', '.join(f'torch.{each}' for each in TYPES)}")
        dtype = TYPES[dtype.removeprefix("torch.")]
    if dtype is not None:
        if not _is_dtype(dtype) and not isinstance(dtype, TypedTensorType):
            if isinstance(dtype, builtins.type):
                raise ValueError(f"invalid type: '{dtype.__name__}'")
            raise TypeError(f"dtype must be a type, str, or dtype object, not {dtype.__class__.__name__}")
        return to(self, dtype.dtype if isinstance(dtype, TypedTensorType) else dtype)
    prefix = "torch." if self.device.type == "cpu" else f"torch.{self.device.type}."
    return f"{prefix}{self.dtype.title}Tensor"


@operation("composite", namespace="method")
def copy_(self: Tensor, other: Tensor, non_blocking: bool = False) -> Tensor:
    """Overwrite the elements with another tensor's, broadcast and converted.

    Raises:
        TypeError: what is given is neither a tensor nor a number.
    """
    check_leaf(self, needs_gradient(other))
    check_inference(self)
    # What is copied onto itself may show elements several times.
    if not _is_same_data(self, other):
        check_distinct(self)
        check_apart(self, other, but_same=True)
    source = other
    if not isinstance(source, Tensor):
        if not (hasattr(source, "__float__") or isinstance(source, complex)):
            raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
        wide = self.dtype if self.dtype.category >= 2 else float64
        source = self.new_tensor(other, dtype=wide.to_complex() if isinstance(other, complex) else None)
    if source.device != self.device:
        source = to(source, device=self.device)
    shape = self._layout.shape
    if source._layout.shape != shape:
        common = broadcast_shapes(shape, source._layout.shape)
        if common != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}")
        source = source.expand(shape)
    _warn_discarded(source.dtype, self.dtype)
    return assign(self, source)


def _is_same_data(first: Tensor, second: object) -> builtins.bool:
    return (
        isinstance(second, Tensor)
        and second._storage.number == first._storage.number
        and second._layout is first._layout
        and second.dtype is first.dtype
    )


@operation("composite", namespace="method")
def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with one number.

    Raises:
        RuntimeError: a tensor with dimensions as value.
    """
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    if isinstance(value, Tensor):
        return copy_(self, value.clone() if value._storage.number == self._storage.number else value)
    target = without_repeats(self)
    check_writable(target)
    assign(target, filled(target._layout.shape, value, self.dtype, self.device), fresh=True)
    refuse_gradient(self, target)
    return self


@operation("composite")
def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with zero."""
    return fill_(self, 0)
