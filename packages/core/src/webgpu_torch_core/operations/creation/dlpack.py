"""DLPack: lending tensors' memory to other libraries and borrowing theirs, without copies.

Source: the specification of DLPack 1.0 (https://dmlc.github.io/dlpack). Capsules are read through :mod:`ctypes`, since they may
hold what NumPy has no type for; those that are lent are NumPy's own over the tensor's memory.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ...backend.plugins import registry
from ...ir.dtypes import (
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
    uint16,
    uint32,
    uint64,
)
from ...ir.layouts import contiguous_strides
from ...record.devices import host_device
from ...tensors.tensor import Tensor
from .factories import empty, from_bytes

CPU = 1
"""The number of the host's device type; backends declare those of others."""

#: (type code, bits) -> element type: 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool
_TYPES: dict[tuple[int, int], dtype] = {
    (0, 8): int8, (0, 16): int16, (0, 32): int32, (0, 64): int64, (1, 8): uint8, (1, 16): uint16, (1, 32): uint32, (1, 64): uint64, (2, 16): float16, (2, 32): float32,
    (2, 64): float64, (4, 16): bfloat16, (5, 32): complex32, (5, 64): complex64, (5, 128): complex128, (6, 8): bool_,
}  # fmt: skip
#: name of a capsule -> its name once it is used
_NAMES = {b"dltensor_versioned": b"used_dltensor_versioned", b"dltensor": b"used_dltensor"}
_NAME = b"dltensor"


class _Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = (("array", _Array), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("array", _Array),
    )  # fmt: skip


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


class _Loan:
    """Memory borrowed from another library, given back when nobody here looks at it any more."""

    def __init__(self, address: int, layout: type[_Managed] | type[_Versioned]) -> None:
        self._address = address
        self.managed = layout.from_address(address)

    def __del__(self) -> None:
        if self.managed.deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)(self._address)


def imported(source: Any) -> Tensor:
    """Return a tensor over the memory of a capsule, or of an object with ``__dlpack__``.

    Raises:
        BufferError: memory that is not the host's.
        RuntimeError: a used capsule, or an unknown element type.
        AttributeError: an object without ``__dlpack__``.
    """
    capsule = source
    if type(source).__name__ != "PyCapsule":
        place = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (CPU, 0)
        if isinstance(source, Tensor):
            _require_lendable(source)
            return source.detach()
        if place[0] != CPU:
            raise BufferError(f"DLPack device type {int(place[0])} cannot be shared; only the host's memory (1) can")
        if not hasattr(source, "__dlpack__"):
            raise RuntimeError(
                f"from_dlpack expects a capsule or an object with __dlpack__, got {type(source).__name__}"
            )
        try:
            capsule = source.__dlpack__(max_version=(1, 0))
        except TypeError:
            # An exporter from before versions.
            capsule = source.__dlpack__()
    name = next((each for each in _NAMES if _is_valid(capsule, each)), None)
    if name is None:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have "
            "already constructed a tensor from it once."
        )
    loan = _Loan(_get_pointer(capsule, name), _Managed if name == _NAME else _Versioned)
    _set_name(capsule, _NAMES[name])
    return _tensor_of(loan)


def _tensor_of(loan: _Loan) -> Tensor:
    # A circle: that module imports this one.
    from .host_memory import bytes_at, over_memory

    array = loan.managed.array
    kind = _TYPES.get((array.code, array.bits))
    if kind is None or array.lanes != 1:
        raise RuntimeError(f"Unsupported DLPack type: code {array.code}, {array.bits} bits, {array.lanes} lanes")
    shape = tuple(array.shape[each] for each in range(array.ndim))
    strides = tuple(array.strides[each] for each in range(array.ndim)) if array.strides else contiguous_strides(shape)
    if any(stride < 0 for stride in strides):
        raise ValueError(f"Tensors with negative strides are not currently supported, got strides {strides}")
    if 0 in shape:
        return empty(shape, dtype=kind, device=host_device())
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    memory = bytes_at(array.data + array.byte_offset, count * kind.itemsize, loan)
    result = over_memory(memory, kind, shape, strides, loan)
    if result is not None:
        return result

    whole = from_bytes(memory, (count,), kind, host_device())
    return whole.as_strided(shape, strides).clone()


def _require_lendable(tensor: Tensor) -> None:
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


def exported(tensor: Tensor, version: tuple[int, int] | None = None) -> Any:
    """Return a capsule that lends a tensor's memory, of the newest kind that a reader of this version takes.

    Raises:
        BufferError: a tensor that requires a gradient, or that is not on the CPU.
    """
    _require_lendable(tensor)
    if tensor.device != host_device():
        raise BufferError(
            f"Can't export tensors on {tensor.device}: DLPack has no way to its memory; copy it to the CPU first"
        )
    # NumPy lends the bits of bfloat16 as 16-bit integers.
    array = (tensor.view(int16) if tensor.dtype is bfloat16 else tensor).numpy()
    try:
        # Readers of older capsules are not told that they may write there.
        capsule = array.__dlpack__() if version is None else array.__dlpack__(max_version=version)
    except TypeError:
        # NumPy from before versions.
        capsule = array.__dlpack__()
    if tensor.dtype is bfloat16:
        name = next(each for each in _NAMES if _is_valid(capsule, each))
        layout = _Managed if name == _NAME else _Versioned
        layout.from_address(_get_pointer(capsule, name)).array.code = 4
    return capsule


def device_of(tensor: Tensor) -> tuple[int, int]:
    """Return DLPack's numbers of a tensor's device type and index."""
    if tensor.device == host_device():
        return CPU, 0
    number = registry.facts(tensor.device.type).dlpack_type
    if number is not None:
        return number, tensor.device.index or 0
    raise ValueError(f"Unknown device type {tensor.device.type} for Dlpack")
