"""Host numbers to bytes and back, without NumPy."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from math import copysign, inf
from typing import Any, NoReturn

from .dtypes import STORED_DTYPES, bfloat16, bool_, dtype, float16, float32, uint8, uint64
from .float8 import FORMATS
from .scalar_math import bfloat16_bits_to_float, convert, float_to_bfloat16_bits, round_to_float16


def require_numpy(what: str) -> Any:
    """Return the NumPy module for something that cannot do without.

    Raises:
        ModuleNotFoundError: it is not installed; the message says how to install it.
    """
    try:
        # Slow to import, and seldom needed.
        import numpy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs NumPy, which is not installed: pip install numpy", name="numpy"
        ) from error
    return numpy


def flatten(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of nested sequences and their numbers in row-major order.

    Raises:
        ValueError: sequences at one level differ in length, or hold texts.
        TypeError: something that is no number among numbers.
    """
    # A floor above this one: looked up when it is used.
    from ..tensors.tensor import Tensor

    if isinstance(data, Tensor):
        return tuple(data.shape), _numbers(data)
    if isinstance(data, str | bytes | dict) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return (), [data]
    if hasattr(data, "tolist") and not isinstance(data, list | tuple):
        return flatten(data.tolist())
    if len(data):
        try:
            first = data[0]
        except Exception:
            raise ValueError(f"could not determine the shape of object type '{type(data).__name__}'") from None
        if isinstance(first, str | bytes):
            raise ValueError(f"too many dimensions '{type(first).__name__}'")
    parts = [_flatten_inside(each) for each in data]
    if not parts:
        return (0,), []
    shape = parts[0][0]
    for each, _ in parts:
        if each != shape:
            expected = shape[0] if shape else "a number"
            found = each[0] if each else "a number"
            if not shape or not each:
                raise TypeError("not a sequence")
            raise ValueError(f"expected sequence of length {expected} at dim {1} (got {found})")
    numbers: list[Any] = []
    for _, each in parts:
        numbers.extend(each)
    return (len(parts), *shape), numbers


def _flatten_inside(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Flatten one of several; plain numbers, of which there may be many, take no detour."""
    if data.__class__ in (float, int, bool):
        return (), [data]
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if getattr(data, "ndim", None) == 0 and hasattr(data, "__array_interface__"):
        # An array of one number, which says of what type that is.
        return (), [data[()]]
    try:
        shape, numbers = flatten(data)
    except RecursionError:
        raise TypeError("new(): self-referential lists are incompatible") from None
    if hasattr(data, "_storage"):
        # A tensor of one element stands for its number, and says of what type that is.
        if len(numbers) != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return (), [data]
    return shape, numbers


def _numbers(tensor: Any) -> list[Any]:
    return tensor.detach().reshape(-1).tolist()


def pack(numbers: Sequence[Any], kind: dtype) -> Any:
    """Return numbers as host bytes of a type.

    Raises:
        TypeError: an element is not a number.
        RuntimeError: an integer does not fit the type.
        ValueError: it does not fit 64 bits.
        OverflowError: it does not fit 64 unsigned bits.
    """
    try:
        return _pack(numbers, kind)
    except OverflowError as error:
        if kind is uint64:
            raise
        if any(isinstance(each, int) and not -(1 << 63) <= each < 1 << 63 for each in numbers):
            raise ValueError("Overflow when unpacking long long") from error
        raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow") from error
    except (TypeError, ValueError) as error:
        if any(isinstance(each, complex) for each in numbers):
            real = kind.category == 2
            message = (
                "must be real number, not complex" if real else "'complex' object cannot be interpreted as an integer"
            )
            raise TypeError(message) from error
        wrong = next((each for each in numbers if not isinstance(each, bool | int | float | complex)), None)
        if wrong is not None:
            raise TypeError(f"new(): invalid data type '{type(wrong).__name__}'") from error
        # What is left is NaN for a type of integers.
        raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow") from error


#: what PyTorch's errors call types
C_NAMES = {
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "int8": "int8_t", "int16": "short", "int32": "int", "int64": "int64_t", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
    **{name: f"c10::{name.capitalize()}" for name in FORMATS},
}  # fmt: skip

#: the same where a number is to be held
_HELD = {**C_NAMES, "int16": "int16_t"}
#: integers that PyTorch takes as scalars: from the first one on, before the second
LEAST, BEYOND = -(1 << 63), 1 << 64


def refuse_integer(value: int) -> NoReturn:
    """Raise PyTorch's OverflowError for an integer that is no scalar: neither 64 bits nor 64 unsigned bits hold it."""
    raise OverflowError("int too big to convert" if value > 0 else "can't convert negative int to unsigned")


def real_number(value: complex, kind: dtype) -> float:
    """Return a number as a real type takes it, which is its real part if that is all of it, or its truth.

    Raises:
        RuntimeError: the type cannot hold the number.
    """
    check_number(value, kind)
    return value != 0 if kind is bool_ else value.real


def check_number(value: complex, kind: dtype) -> None:
    """Raise PyTorch's RuntimeError for a number that a type cannot hold; unsigned types take negative integers, wrapped.

    An integer that no type holds is an OverflowError.
    """
    if value.__class__ is int and not LEAST <= value.real < BEYOND:
        refuse_integer(int(value.real))
    if isinstance(value, complex):
        if value.imag != 0 and 0 < kind.category < 3:
            raise RuntimeError(f"value cannot be converted to type {_HELD[kind.name]} without overflow")
        largest = max(abs(value.real), abs(value.imag)) if kind.is_complex else abs(value.real)
        value = value.real
    else:
        largest = abs(value)
    if kind.category >= 2:
        fits = not kind.to_real().maximum < largest < inf
    elif kind.category == 1:
        # The largest of 64 bits is no floating-point number: PyTorch compares with the next one.
        of_float = value.__class__ is float
        most = float(kind.maximum) if of_float else kind.maximum
        fits = (kind.minimum if kind.minimum or of_float else -kind.maximum) <= value <= most
    else:
        return
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {_HELD[kind.name]} without overflow")


def stored(value: float, kind: dtype) -> float | int:
    """Return a number as an element of a type holds it: floats overflow to infinity, integers wrap."""
    if kind.is_floating_point:
        # Half a step above the largest number, where rounding goes to infinity.
        return copysign(inf, value) if kind.itemsize == 4 and abs(value) >= 3.4028235677973366e38 else float(value)
    if kind.category == 0:
        return int(bool(value))
    bits = int(value) & ((1 << kind.bits) - 1)
    return bits - (1 << kind.bits) if kind.is_signed and bits >> (kind.bits - 1) else bits


def _pack(numbers: Sequence[Any], kind: dtype) -> Any:
    if kind is bool_:
        return bytes(bytearray(1 if each else 0 for each in numbers))
    if kind is bfloat16:
        return array("H", [float_to_bfloat16_bits(float(each)) for each in numbers])
    if kind is float16:
        return struct.pack(f"<{len(numbers)}e", *(round_to_float16(float(each)) for each in numbers))
    if kind.stored is uint8 and kind is not uint8:
        encode = FORMATS[kind.name].encode
        return bytearray(int(encode(convert(float(each), float32))) for each in numbers)
    if kind.is_complex:
        return _pack([part for each in numbers for part in (complex(each).real, complex(each).imag)], kind.to_real())
    if kind.category == 1:
        whole = [_whole(each, kind) for each in numbers] if not kind.is_signed else [int(each) for each in numbers]
        return array(kind.format, whole)
    return array(kind.format, [float(each) for each in numbers])


def _whole(value: Any, kind: dtype) -> int:
    """Return a number for an unsigned type, where negative integers wrap, but for 64 bits, and negative floats do not fit."""
    if kind.bits == 64 and value.__class__ is int and not 0 <= value <= kind.maximum:
        raise OverflowError("can't convert negative int to unsigned" if value < 0 else "int too big to convert")
    if value >= 0 or (isinstance(value, float) and value.is_integer() is False):
        if value < 0:
            raise OverflowError
        return int(value)
    if isinstance(value, float) or -int(value) > kind.maximum:
        raise OverflowError
    return int(value) % (int(kind.maximum) + 1)


#: types that a format character says all of
_PLAIN = frozenset(STORED_DTYPES) - {bool_, bfloat16, float16}


def unpack(data: Any, kind: dtype) -> list[Any]:
    """Return host bytes as a list of Python numbers."""
    view = memoryview(data)
    if kind in _PLAIN:
        return view.cast(kind.format).tolist()  # type: ignore[call-overload]
    if kind is bool_:
        return [each != 0 for each in view]
    if kind is bfloat16:
        return [bfloat16_bits_to_float(bits) for bits in view.cast("H")]
    if kind is float16:
        return list(struct.unpack(f"<{len(view) // 2}e", view))
    if kind.stored is uint8 and kind is not uint8:
        numbers = FORMATS[kind.name].numbers
        return [numbers[bits] for bits in view.cast("B")]
    parts = unpack(view, kind.to_real())
    return [complex(real, imaginary) for real, imaginary in zip(parts[::2], parts[1::2], strict=True)]
