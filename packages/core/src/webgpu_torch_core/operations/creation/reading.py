"""Reading elements out: as numbers, as NumPy arrays, as text, and one by one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ...dispatch.registry import operation
from ...ir.dtypes import FLOAT8, bfloat16, bool_, complex32, complex64, complex128, float64, int64
from ...ir.host_bytes import require_numpy, unpack
from ...ir.layouts import Layout, contiguous_layout
from ...notices import warn_once
from ...record.devices import host_device
from ...record.grad_mode import recording
from ...record.tape import Value
from ...tensors.memory_formats import contiguous_format
from ...tensors.printing import format_tensor
from ...tensors.tensor import MetaValue, Tensor
from ..common import dtype_title
from ..complex.interleaving import real_alias
from ..elementwise.call import default_float
from .conversion import clone, copied, fills_memory, seen
from .factories import array_tensor

#: bytes up to which the memory of a view is read whole
LITTLE = 4096
#: elements of a view up to which they are read one by one where the host sees them
FEW = 64


def read_numbers(self: Tensor) -> list[Any]:
    """Return all elements in row-major order as Python numbers."""
    value, layout = self._storage.value, self._layout
    # Real numbers that fill their memory: the most usual, and read one at a time by some programs.
    if value.__class__ is Value and layout.numel == value.numel and layout.is_contiguous and not layout.offset:
        return unpack(value.engine.read(value), self.dtype)
    return unpack(read_bytes(self), self.dtype)


def read_bytes(self: Tensor) -> bytearray:
    """Return all elements in row-major order as the host's bytes.

    Raises:
        RuntimeError: the tensor has no elements itself: its class answers operations.
    """
    value = self._storage.value
    if isinstance(value, MetaValue):
        if not self.is_meta:
            raise RuntimeError(f"a {type(self).__name__} holds no elements itself: its class answers its operations")
    elif fills_memory(self):
        return value.engine.read(value)
    else:
        size = self.dtype.itemsize
        if value.numel * value.dtype.itemsize <= LITTLE and self._layout.numel * size <= LITTLE:
            # No kernel gathers a few elements faster than they are read with what lies between them.
            return _picked(value.engine.read(value), self._layout, size)
        if self._layout.numel <= FEW and (data := seen(value)) is not None:
            return _picked(data, self._layout, size)
    whole = _dense(self)
    return whole._engine.read(whole._storage.value)


def _picked(data: bytearray | memoryview, layout: Layout, size: int) -> bytearray:
    """Return the bytes of a layout's elements, in row-major order."""
    if layout.numel == 1:
        return bytearray(data[layout.offset * size : (layout.offset + 1) * size])
    places = [layout.offset]
    for count, stride in zip(layout.shape, layout.strides, strict=True):
        places = [place + number * stride for place in places for number in range(count)]
    return bytearray().join([data[place * size : (place + 1) * size] for place in places])


def _dense(self: Tensor) -> Tensor:
    """Return a tensor of the same elements that fill its memory in row-major order."""
    if self.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if fills_memory(self):
        return self
    source = self.detach()
    whole = source if source._layout.is_contiguous else clone(source, memory_format=contiguous_format)
    return whole if fills_memory(whole) else copied(whole, whole.dtype, contiguous_layout(whole._layout.shape))


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
    if self.requires_grad and recording.enabled and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if not force and self.device != host_device():
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if self.dtype is bfloat16 or self.dtype is complex32 or self.dtype in FLOAT8:
        raise TypeError(f"Got unsupported ScalarType {dtype_title(self.dtype)}")
    source = self.detach()
    if source.dtype.is_complex:
        return numpy(real_alias(source), force=force).view(np.dtype(source.dtype.name))[..., 0]
    engine = source._engine
    share = getattr(engine.device, "as_array", None) if not isinstance(source._storage.value, MetaValue) else None
    if share is None or source._layout.numel == 0:
        array = np.frombuffer(
            bytes(engine.read(clone(source, memory_format=contiguous_format)._storage.value)),
            dtype=np.dtype(source.dtype.name),
        )
        return array.reshape(source._layout.shape).copy()
    # What was recorded reads the elements as they are now, not as the array's owner will write them.
    engine.flush()
    engine.recorder.unread = False
    value: Any = source._storage.value
    if value.saved:
        # Backward goes on with the present elements where PyTorch would go on with a result computed from them.
        value = source._storage.exchange(clone(source.as_strided((value.numel,), (1,), 0))._storage.value)
    flat = share(value.realize(), source.dtype, value.numel)
    engine.raise_failed_checks()
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
    if array.dtype == bool:
        # As in PyTorch, which began without a type of truth values.
        array = array.astype("uint8")
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


def _maker(tensor: Tensor) -> str | None:
    """Return the name of the node that made a tensor, as texts of tensors have it."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        # A view that may not be used any more, as its base was written since: it can still be looked at.
        return "Invalid"
    return None if node is None else node.name()


#: what returns the text of a tensor's tangent, None of one that has none, while there are tangents
tangents_told: list[Callable[[Tensor], str | None]] = []


def _repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    shown = None if self.device.type == "cpu" else str(self.device)

    kind = self.__class__.__name__
    # Of 16 bits by default, too, numbers that are pairs of float32 need no mention.
    pair = complex128 if default_float[0] is float64 else complex64
    own = kind not in ("Tensor", "Parameter")
    tangent = next((each(self) for each in tangents_told), None) if self.requires_grad else None
    text = format_tensor(
        None if isinstance(self._storage.value, MetaValue) else read_numbers(self), self.dtype, tuple(self._layout.shape),
        requires_grad=self._requires_grad, grad_fn_name=_maker(self), device=shown,
        is_default_dtype=self.dtype in (default_float[0], pair, int64, bool_),
        contents=tensor_contents, prefix=f"{kind}(" if own else "tensor(", tangent=tangent,
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


def _told(self: Tensor) -> Tensor:
    """Return a tensor whose number is about to leave it, and its gradient with it."""
    if recording.enabled and self.requires_grad:
        warn_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using tensor.detach() "
            "first."
        )
    return self


def _length(self: Tensor) -> int:
    if self.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self._layout.shape[0]


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


Tensor.__array__ = _array  # type: ignore[attr-defined]
Tensor.__array_wrap__ = _array_wrap  # type: ignore[attr-defined]
Tensor.__float__ = lambda self: float(_single(_told(self), "float"))  # type: ignore[attr-defined]
Tensor.__int__ = lambda self: int(_single(self, "int"))  # type: ignore[attr-defined]
Tensor.__complex__ = lambda self: complex(_single(_told(self), "complex"))  # type: ignore[attr-defined]
Tensor.__bool__ = lambda self: bool(_single(self, "bool"))  # type: ignore[attr-defined]
Tensor.__index__ = _index  # type: ignore[attr-defined]
Tensor.__len__ = _length  # type: ignore[attr-defined]
Tensor.__iter__ = _iterate  # type: ignore[attr-defined]
Tensor.__repr__ = _repr  # type: ignore[method-assign]
Tensor.__format__ = _format  # type: ignore[method-assign]
