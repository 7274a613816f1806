"""Tensors over memory that is already there: arrays, buffers, and what other libraries lend through DLPack."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import BY_NAME, dtype
from ...ir.layouts import layout
from ...notices import warn
from ...record.devices import canonical_device, engine_for, host_device
from ...record.tape import new_value
from ...tensors.tensor import Tensor, new_storage
from ..common import as_leaf, dtype_title
from ..elementwise.call import default_float
from .dlpack import imported
from .factories import array_tensor, as_dtype, as_tensor, from_bytes
from .untyped_storage import UntypedStorage

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike


def over_memory(
    memory: memoryview, kind: dtype, shape: tuple[int, ...], strides: tuple[int, ...], keeper: Any
) -> Tensor | None:
    """Return a CPU tensor over an array of bytes, or None where the CPU backend takes none; ``keeper`` owns the memory."""
    place = host_device()
    engine = engine_for(place)
    wrap = getattr(engine.device, "wrap_host", None)
    if wrap is None:
        return None
    stored = kind.stored
    value = new_value(engine, stored, memory.nbytes // stored.itemsize, wrap(memory))
    # The memory may be a part of something larger: nothing tells when the last who writes there is gone.
    value.share(lambda: keeper)
    return Tensor._from_storage(new_storage(value), layout(shape, strides), kind, place)


def bytes_at(address: int, nbytes: int, keeper: Any) -> memoryview:
    """Return the bytes at an address, writable; they keep their owner alive."""
    window: Any = (ctypes.c_ubyte * nbytes).from_address(address)
    window.keeper = keeper
    return memoryview(window).cast("B")


def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


@operation("creation", method=False)
def from_numpy(ndarray: Any) -> Tensor:
    """A CPU tensor sharing an array's memory, strides included; a copy where no CPU backend is installed.

    Raises:
        TypeError: something that is no array, or elements of a type that tensors do not have.
        ValueError: negative strides, strides between elements, or foreign byte order.
    """
    if type(ndarray).__module__ != "numpy" or not hasattr(ndarray, "ctypes"):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    kind = BY_NAME.get(ndarray.dtype.name)
    if kind is None:
        return array_tensor(ndarray, None, host_device())
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )
    itemsize = ndarray.dtype.itemsize
    if any(stride % itemsize for stride in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
        )
    if any(stride < 0 for stride in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently "
            "supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if not ndarray.flags.writeable:
        warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to "
            "this tensor will result in undefined behavior. You may want to copy the array to protect its data or make it writable "
            "before converting it to a tensor.",
            UserWarning,
        )
    strides = tuple(stride // itemsize for stride in ndarray.strides)
    if ndarray.size:
        memory = bytes_at(ndarray.ctypes.data, _extent(ndarray.shape, strides) * itemsize, ndarray)
        result = over_memory(memory, kind, tuple(ndarray.shape), strides, ndarray)
        if result is not None:
            return result
    return array_tensor(ndarray, None, host_device())


@operation("creation", method=False)
def frombuffer(buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor of the elements in a bytes-like object, sharing its memory where it may be written.

    Raises:
        ValueError: an empty buffer, an offset outside of it, or elements that do not fit.
    """
    try:
        view = memoryview(buffer).cast("B")
    except TypeError as error:
        raise ValueError(f"object does not implement Python buffer protocol: {type(buffer).__name__}") from error
    length, size = len(view), dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
                f"({size})"
            )
        count = (length - offset) // size
    elif offset + count * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than actual "
            f"buffer length ({length} bytes)"
        )
    part = view[offset : offset + count * size]
    result = None
    if view.readonly:
        warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors: its bytes are copied.",
            UserWarning,
        )
    else:
        result = over_memory(part, dtype, (count,), (1,), buffer)
    result = from_bytes(part, (count,), dtype, host_device()) if result is None else result
    return as_leaf(result, requires_grad)


@operation("creation", method=False)
def from_dlpack(ext_tensor: Any, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array (anything with ``__dlpack__``), or of a DLPack capsule.

    Raises:
        BufferError: memory of a device that tensors cannot share, or ``copy=False`` where a copy is needed.
        RuntimeError: a capsule that was used before, or elements of a type that tensors do not have.
    """
    result = imported(ext_tensor)
    if device is not None and canonical_device(device) != result.device:
        if copy is False:
            raise BufferError(f"cannot move memory from {result.device} to {device} without a copy")
        return result.to(device=device)
    return result.clone() if copy else result


@operation("creation", method=False)
def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor of anything that holds numbers, sharing memory where it can unless ``copy`` is True.

    Raises:
        ValueError: ``copy`` is False, and the elements must be copied.
        RuntimeError: so it is for one of NumPy's numbers.
    """
    kind = as_dtype(dtype)
    source: Any = obj
    if isinstance(obj, UntypedStorage):
        whole, own = obj.host_bytes(), kind or default_float[0]
        source = from_bytes(whole, (len(whole) // own.itemsize,), own, host_device())
    elif isinstance(obj, bytes | bytearray | memoryview):
        source = frombuffer(obj, dtype=kind or default_float[0])
    elif type(obj).__module__ == "numpy" and hasattr(obj, "ctypes"):
        source = from_numpy(obj)
    elif not isinstance(obj, Tensor) and (hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule"):
        source = from_dlpack(obj)
    if not isinstance(source, Tensor):
        if copy is False and type(obj).__module__ == "numpy":
            raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        result = as_tensor(source, dtype=kind, device=device)
        return as_leaf(result, bool(requires_grad))
    result = as_tensor(source, dtype=kind, device=device)
    if copy is False and result is not source:
        if result.device != source.device:
            raise ValueError(f"can't alias tensor from device '{source.device}' to '{result.device}'.")
        given, asked = dtype_title(source.dtype), dtype_title(result.dtype)
        raise ValueError(f"can't alias tensor with dtype '{given}' into dtype '{asked}'.")
    result = result.clone() if copy and result is source else result
    if requires_grad is not None and requires_grad != result.requires_grad:
        result = result.detach().requires_grad_(requires_grad)
    return result
