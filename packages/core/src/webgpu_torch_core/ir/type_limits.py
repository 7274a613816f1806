"""Numeric limits of element types: ``torch.finfo`` and ``torch.iinfo``."""

from __future__ import annotations

from .dtypes import dtype, float32, require_dtype

# name: (significand bits, smallest normal exponent)
_FLOATS = {
    "float16": (10, -14),
    "bfloat16": (7, -126),
    "float32": (23, -126),
    "float64": (52, -1022),
    "float8_e4m3fn": (3, -6),
    "float8_e4m3fnuz": (3, -7),
    "float8_e5m2": (2, -14),
    "float8_e5m2fnuz": (3, -15),
    "float8_e8m0fnu": (0, -127),
}


class finfo:
    """Limits of a floating-point type: ``max``, ``min``, ``eps``, ``tiny``, ``resolution``, ``bits``."""

    def __init__(self, type: dtype = float32) -> None:
        require_dtype("finfo", "type", type)
        if not (type.is_floating_point or type.is_complex):
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{type.name}'"
            )
        real = type.to_real()
        digits, exponent = _FLOATS[real.name]
        self.dtype = real.name
        self.bits = real.bits
        self.max = float(real.maximum)
        # A type of powers of two alone has no negative numbers.
        self.min = 2.0**exponent if digits == 0 else float(real.minimum)
        self.eps = 2.0**-digits
        self.tiny = self.smallest_normal = 2.0**exponent
        self.resolution = 10.0 ** -int(digits * 0.30102999566398120)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer type: ``max``, ``min``, ``bits``."""

    def __init__(self, type: dtype) -> None:
        require_dtype("iinfo", "type", type)
        if type.category != 1:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type.name}'")
        self.dtype = type.name
        self.bits = type.bits
        self.max = int(type.maximum)
        self.min = int(type.minimum)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
