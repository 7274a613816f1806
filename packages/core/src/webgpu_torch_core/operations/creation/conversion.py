"""Copies, type and device conversions, and reading elements out."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import bfloat16, bool_, complex64, dtype, float16, float32, float64, int8, int16, int32, int64, uint8
from ...ir.host_bytes import require_numpy, unpack
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import Layout, channels_last_strides, contiguous_layout, dense_strides, is_dense, layout, real_layout
from ...record.devices import canonical_device, device, host_device
from ...tensors.printing import format_tensor
from ...tensors.tensor import MetaValue, Tensor, empty_tensor, storage_size
from ..common import attach, kernel_cache, record_on
from ..complex.interleaving import complex_alias, copy_real, part_alias, real_alias
from ..elementwise.call import default_float
from ..in_place.writing import assign, check_writable, converted
from .factories import array_tensor, as_dtype, filled, from_bytes

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
    if input.dtype is complex64 or kind is complex64:
        return _copy_complex(input.detach(), kind, target)
    kernel = cast_kernel(input._layout, input._storage.value.numel, input.dtype, kind, target)
    return record_on(input._engine, input.device, kernel, (input._storage.value,), (), (target,))


def _copy_complex(input: Tensor, kind: dtype, target: Layout) -> Tensor:
    if input.dtype is not complex64:
        return copy_real(input, target)
    if kind is complex64:
        return complex_alias(copied(real_alias(input), float32, real_layout(target)))
    if kind is bool_:
        return copied(input != 0, kind, target)
    return copied(part_alias(input, 0), kind, target)


def dense_layout(input: Tensor, memory_format: Any) -> Layout:
    """Return the layout of a copy: in a named order of elements, else in that of the input."""
    if memory_format is None or memory_format is preserve_format:
        return _preserved(input._layout)
    shape = input._layout.shape
    if memory_format is contiguous_format or memory_format == "contiguous":
        return contiguous_layout(shape)
    return layout(shape, _channels_last_strides(shape, memory_format))


@lru_cache(maxsize=4096)
def _preserved(source: Layout) -> Layout:
    strides = source.strides if source.numel == 0 or is_dense(source) else dense_strides(source.shape, source.strides)
    return layout(source.shape, strides)


def _channels_last_strides(shape: tuple[int, ...], memory_format: Any) -> tuple[int, ...]:
    rank = _CHANNELS_LAST_RANKS.get(memory_format)
    if rank is None:
        raise TypeError(f"memory_format must be a torch.memory_format, not {type(memory_format).__name__}")
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format.name} format")
    return channels_last_strides(shape)


def has_memory_format(input: Tensor, memory_format: Any) -> bool:
    """Return whether elements lie in a named order; strides of dimensions of one element do not matter."""
    if memory_format not in _CHANNELS_LAST_RANKS:
        return input._layout.is_contiguous
    shape = input._layout.shape
    if len(shape) != _CHANNELS_LAST_RANKS[memory_format] or 0 in shape:
        return False
    wanted = _channels_last_strides(shape, memory_format)
    return all(
        size == 1 or own == stride for size, own, stride in zip(shape, input._layout.strides, wanted, strict=True)
    )


@operation("composite")
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy of the elements with gradient; dense strides are kept unless a memory format orders them.

    Raises:
        RuntimeError: a channels-last format for another number of dimensions than it has.
    """
    result = copied(input, input.dtype, dense_layout(input, memory_format))
    return attach(result, "CloneBackward0", (input,), lambda grad: grad)


class memory_format:
    """A named order of elements in memory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
legacy_contiguous_format = contiguous_format
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
_CHANNELS_LAST_RANKS = {channels_last: 4, channels_last_3d: 5}


def _target(self: Tensor, args: tuple[Any, ...], kind: Any, place: Any) -> tuple[dtype, device]:
    for each in args:
        if isinstance(each, Tensor):
            kind, place = each.dtype, each.device
        elif isinstance(each, dtype) or each in (float, int, bool):
            kind = as_dtype(each)
        elif isinstance(each, str | device | int) and not isinstance(each, bool):
            place = each
    return as_dtype(kind) or self.dtype, self.device if place is None else canonical_device(place)


@operation("composite", namespace="method")
def to(
    self: Tensor,
    *args: Any,
    dtype: dtype | None = None,
    device: DeviceLike = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """The tensor in another type, on another device or in another memory format; itself where nothing changes."""
    del non_blocking
    kind, place = _target(self, args, dtype, device)
    if kind is self.dtype and place == self.device and not copy:
        # A tensor that is not channels-last counts as contiguous here, whatever its strides.
        if memory_format not in _CHANNELS_LAST_RANKS or has_memory_format(self, memory_format):
            return self
        return clone(self, memory_format=memory_format)
    _warn_discarded(self.dtype, kind)
    result = self
    if place != self.device:
        # Convert on the side that moves fewer bytes.
        if kind.itemsize < self.dtype.itemsize and self.device.type != "meta":
            result = to(self, dtype=kind)
        source = result
        result = _to_device(source.detach(), place)
        back, own = self.device, source.dtype
        attach(result, "ToCopyBackward0", (source,), lambda grad: converted(grad, own).to(device=back))
    if kind is not result.dtype or result is self:
        own = result.dtype
        converted_copy = copied(result, kind, dense_layout(result, memory_format))
        result = attach(converted_copy, "ToCopyBackward0", (result,), lambda grad: converted(grad, own))
    if memory_format in _CHANNELS_LAST_RANKS and not has_memory_format(result, memory_format):
        return clone(result, memory_format=memory_format)
    return result


def _warn_discarded(source: dtype, kind: dtype) -> None:
    if source is complex64 and kind is not complex64 and kind is not bool_:
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3)


def _to_device(source: Tensor, place: device) -> Tensor:
    if place.type == "meta":
        return empty_tensor(source._layout.shape, source.dtype, place)
    if source.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    dense = source if _is_whole(source) else clone(source)
    data = dense._engine.read(dense._storage.value)
    result = from_bytes(data, (storage_size(dense),), source.dtype, place)
    return Tensor._from_storage(result._storage, dense._layout, source.dtype, place)


def _is_whole(source: Tensor) -> bool:
    return source._layout.numel == storage_size(source) and source._layout.offset == 0 and source._layout.is_contiguous


def _conversion(name: str, kind: dtype) -> None:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return to(self, kind, memory_format=memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor as {kind.name}."
    operation("composite", namespace="method")(method)


for _name, _kind in {
    "half": float16, "bfloat16": bfloat16, "float": float32, "double": float64, "bool": bool_, "byte": uint8, "char": int8,
    "short": int16, "int": int32, "long": int64, "cfloat": complex64,
}.items():  # fmt: skip
    _conversion(_name, _kind)


@operation("composite", namespace="method")
def type_as(self: Tensor, other: Tensor | Number) -> Tensor:
    """The tensor in another's type and on its device."""
    return to(self, other)


@operation("composite", namespace="method")
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in the host's memory: on the CPU, or on device ``python`` where no CPU backend is installed."""
    del memory_format
    return to(self, device=host_device())


@operation("composite", namespace="method")
def webgpu(self: Tensor, device: DeviceLike = None) -> Tensor:
    """The tensor on a WebGPU device."""
    return to(self, device="webgpu" if device is None else device)


@operation("composite", namespace="method")
def type(self: Tensor, dtype: dtype | str | None = None, non_blocking: bool = False) -> Any:
    """The tensor in another type; without one, the name of its class such as ``torch.FloatTensor``."""
    # A floor above this one: looked up when it is used.
    from ...api.typed_tensors import TYPES, TypedTensorType

    del non_blocking
    if isinstance(dtype, str):
        if dtype.removeprefix("torch.") not in TYPES:
            raise ValueError(f"invalid type: '{dtype}'; expected one of {', '.join(f'torch.{each}' for each in TYPES)}")
        dtype = TYPES[dtype.removeprefix("torch.")]
    if dtype is not None:
        return to(self, dtype.dtype if isinstance(dtype, TypedTensorType) else dtype)
    prefix = "torch." if self.device.type == "cpu" else f"torch.{self.device.type}."
    name = next((name for name, kind in TYPES.items() if kind is self.dtype), "ComplexFloatTensor")
    return f"{prefix}{name}"


@operation("composite", namespace="method")
def copy_(self: Tensor, other: Tensor, non_blocking: bool = False) -> Tensor:
    """Overwrite the elements with another tensor's, broadcast and converted."""
    del non_blocking
    check_writable(self)
    source = other
    if not isinstance(source, Tensor):
        source = self.new_tensor(other, dtype=complex64 if isinstance(other, complex) else None)
    if source.device != self.device:
        source = to(source, device=self.device)
    if source._layout.shape != self._layout.shape:
        source = source.expand(self._layout.shape)
    _warn_discarded(source.dtype, self.dtype)
    return assign(self, source)


@operation("composite", namespace="method")
def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with one number.

    Raises:
        RuntimeError: a tensor with dimensions as value.
    """

    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    if isinstance(value, Tensor):
        return copy_(self, value)
    target = _without_repeats(self)
    check_writable(target)
    assign(target, filled(target._layout.shape, value, self.dtype, self.device), fresh=True)
    return self


def _without_repeats(self: Tensor) -> Tensor:
    """Return a tensor without the repetitions of ``expand``: what is written once is written everywhere."""
    shape, strides = self._layout.shape, self._layout.strides
    if all(stride or size < 2 for size, stride in zip(shape, strides, strict=True)):
        return self
    distinct = tuple(size if stride else min(size, 1) for size, stride in zip(shape, strides, strict=True))
    return self.as_strided(distinct, strides, self._layout.offset)


@operation("composite")
def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with zero."""
    return fill_(self, 0)


# Reading


def read_numbers(self: Tensor) -> list[Any]:
    """Return all elements in row-major order as Python numbers."""
    return unpack(read_bytes(self), self.dtype)


def read_bytes(self: Tensor) -> bytearray:
    """Return all elements in row-major order as the host's bytes."""
    whole = _dense(self)
    return whole._engine.read(whole._storage.value)


def _dense(self: Tensor) -> Tensor:
    """Return a tensor of the same elements that fill its memory in row-major order."""
    if self.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    source = self.detach()
    whole = source if source._layout.is_contiguous else clone(source, memory_format="contiguous")
    return whole if _is_whole(whole) else copied(whole, whole.dtype, contiguous_layout(whole._layout.shape))


def read_later(tensor: Tensor) -> Callable[[], Any]:
    """Start copying elements to the host and return the function that waits for them, to be called once.

    It gives what ``tensor.tolist()`` would have given now. What is computed meanwhile does not hold it up: the host may read a
    result while the device works on the next one.
    """
    whole = _dense(tensor)
    wait = whole._engine.read_later(whole._storage.value)
    return lambda: _nested(unpack(wait(), whole.dtype), whole._layout.shape)


@operation("composite", namespace="method")
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers."""
    return _nested(read_numbers(self), self._layout.shape)


def _nested(numbers: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return numbers[0]
    if len(shape) == 1:
        return numbers
    step = len(numbers) // shape[0] if shape[0] else 0
    return [_nested(numbers[index * step : (index + 1) * step], shape[1:]) for index in range(shape[0])]


@operation("composite", namespace="method")
def item(self: Tensor) -> Any:
    """The only element as a Python number.

    Raises:
        RuntimeError: there is not exactly one element.
    """
    if self._layout.numel != 1:
        raise RuntimeError(f"a Tensor with {self._layout.numel} elements cannot be converted to Scalar")
    return read_numbers(self)[0]


@operation("composite", namespace="method")
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The elements as a NumPy array; on the CPU it shares the tensor's memory.

    Raises:
        ModuleNotFoundError: NumPy is not installed.
        TypeError: the tensor is on a device that is not the host, or of a type that NumPy has not.
    """
    np = require_numpy("Tensor.numpy()")
    if self.requires_grad and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if not force and self.device != host_device():
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if self.dtype is bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    source = self.detach()
    if source.dtype is complex64:
        return numpy(real_alias(source), force=force).view(np.complex64)[..., 0]
    engine = source._engine
    share = getattr(engine.device, "as_array", None) if not isinstance(source._storage.value, MetaValue) else None
    if share is None or source._layout.numel == 0:
        array = np.frombuffer(
            bytes(engine.read(clone(source, memory_format="contiguous")._storage.value)),
            dtype=np.dtype(source.dtype.name),
        )
        return array.reshape(source._layout.shape).copy()
    # What was recorded reads the elements as they are now, not as the array's owner will write them.
    engine.flush()
    value: Any = source._storage.value
    if value.saved:
        # Backward goes on with the present elements where PyTorch would go on with a result computed from them.
        value = source._storage.exchange(clone(source.as_strided((value.numel,), (1,), 0))._storage.value)
    flat = share(value.realize(), source.dtype, value.numel)
    window = _Window(flat, source._layout, source.dtype.itemsize)
    value.share(weakref.ref(window))
    return np.asarray(window)


class _Window:
    """What an array over a tensor's memory keeps alive: as long as it lives, somebody may write there."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, flat: Any, layout: Layout, itemsize: int) -> None:
        self.memory = flat
        whole = flat.__array_interface__
        address, readonly = whole["data"]
        self.__array_interface__ = {
            "version": 3,
            "typestr": whole["typestr"],
            "data": (address + layout.offset * itemsize, readonly),
            "shape": tuple(layout.shape),
            "strides": tuple(stride * itemsize for stride in layout.strides),
        }


def _array(self: Tensor, dtype: Any = None, copy: Any = None) -> Any:
    array = numpy(self.cpu())
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """Return what a function of NumPy computed from the tensor as a tensor."""

    del context, return_scalar
    return array_tensor(array, None, host_device()).to(self.device)


def _single(self: Tensor, name: str) -> Any:
    if self._layout.numel != 1:
        if name == "bool":
            what = "more than one value" if self._layout.numel else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        raise ValueError("only one element tensors can be converted to Python scalars")
    value = read_numbers(self)[0]
    if isinstance(value, complex) and name in ("int", "float"):
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {'int64_t' if name == 'int' else 'double'} without overflow"
            )
        return value.real
    return value


def _repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    name = self.grad_fn.name() if self.grad_fn is not None else None
    shown = None if self.device.type == "cpu" else str(self.device)

    kind = self.__class__.__name__
    own = kind not in ("Tensor", "Parameter")
    text = format_tensor(
        None if self.is_meta else read_numbers(self), self.dtype, tuple(self._layout.shape),
        requires_grad=self._requires_grad, grad_fn_name=name, device=shown,
        is_default_dtype=self.dtype in (default_float[0], default_float[0].to_complex(), int64, bool_),
        contents=tensor_contents, prefix=f"{kind}(" if own else "tensor(",
    )  # fmt: skip
    return f"Parameter({text})" if own and getattr(self, "_is_param", False) else text


def _format(self: Tensor, specification: str) -> str:
    return (
        item(self).__format__(specification)
        if self.ndim == 0 and not self.is_meta and self.__class__ is Tensor
        else object.__format__(self, specification)
    )


def _index(self: Tensor) -> int:
    if self.dtype.category > 1 or self._layout.numel != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(read_numbers(self)[0])


def _length(self: Tensor) -> int:
    if self.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self._layout.shape[0]


def _iterate(self: Tensor) -> Any:
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


Tensor.__array__ = _array  # type: ignore[attr-defined]
Tensor.__array_wrap__ = _array_wrap  # type: ignore[attr-defined]
Tensor.__float__ = lambda self: float(_single(self, "float"))  # type: ignore[attr-defined]
Tensor.__int__ = lambda self: int(_single(self, "int"))  # type: ignore[attr-defined]
Tensor.__complex__ = lambda self: complex(_single(self, "complex"))  # type: ignore[attr-defined]
Tensor.__bool__ = lambda self: bool(_single(self, "bool"))  # type: ignore[attr-defined]
Tensor.__index__ = _index  # type: ignore[attr-defined]
Tensor.__len__ = _length  # type: ignore[attr-defined]
Tensor.__iter__ = _iterate  # type: ignore[attr-defined]
Tensor.__repr__ = _repr  # type: ignore[method-assign]
Tensor.__format__ = _format  # type: ignore[method-assign]
