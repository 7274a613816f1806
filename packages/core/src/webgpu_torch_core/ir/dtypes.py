"""Element types: names, sizes, categories and type promotion, equal to PyTorch's."""

from __future__ import annotations


class dtype:
    """An element type such as ``float32``; instances are singletons compared by identity."""

    __slots__ = (
        "_complex",
        "_real",
        "bits",
        "category",
        "format",
        "index",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "maximum",
        "minimum",
        "name",
        "stored",
    )

    def __init__(self, index: int, name: str, itemsize: int, category: int, format: str) -> None:
        self.index = index
        self.name = name
        self.itemsize = itemsize
        self.bits = itemsize * 8
        # 0 bool, 1 integral, 2 floating, 3 complex: the order in which categories win in promotion.
        self.category = category
        self.format = format
        """The :mod:`struct` format character of one element (bfloat16 has none and uses ``H``)."""
        self.is_floating_point = category == 2
        self.is_complex = category == 3
        # A floating-point type and the complex type of pairs of it know each other, see below.
        self._real = self
        self.stored = self
        """What buffers hold, and kernels see: the parts of complex numbers, the bits of 8-bit floats."""
        self._complex: dtype | None = self if self.is_complex else None
        self.is_signed = name not in ("bool", "uint8", "uint16", "uint32", "uint64")
        if category == 1:
            self.minimum = -(1 << (self.bits - 1)) if self.is_signed else 0
            self.maximum = (1 << (self.bits - 1)) - 1 if self.is_signed else (1 << self.bits) - 1
        else:
            self.minimum = 0 if category == 0 else -FLOAT_MAXIMUM[name]
            self.maximum = 1 if category == 0 else FLOAT_MAXIMUM[name]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        # The name of the global below, where bool's own is Python's; or, as the class may say, of the one that ``torch`` has.
        return "bool_" if self.name == "bool" and dtype.__module__ == __name__ else self.name

    @property
    def title(self) -> str:
        """What PyTorch's errors call the type."""
        return _TITLES.get(self.name, self.name.capitalize())

    @property
    def word(self) -> str:
        """What PyTorch's errors call the type where they name that of C++."""
        return _WORDS.get(self.name, self.name)

    def to_real(self) -> dtype:
        """Return the type of a complex number's parts, which is what buffers hold; of a real type itself."""
        return self._real

    def to_complex(self) -> dtype:
        """Return the complex type whose parts hold this type's values, complex64 for bfloat16.

        Raises:
            RuntimeError: integers and booleans have none.
        """
        if self._complex is None:
            raise RuntimeError(f"there is no complex type for {self!r}: convert to a floating-point type first")
        return self._complex


#: what PyTorch's errors call element types, where it is not the name
_TITLES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "int64": "Long", "int32": "Int", "int16": "Short",
    "int8": "Char", "bfloat16": "BFloat16", "uint8": "Byte", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble", "complex32": "ComplexHalf", "qint8": "QInt8", "quint8": "QUInt8",
    "qint32": "QInt32",
}  # fmt: skip
_WORDS = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int",
    "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char", "uint16": "short unsigned int",
    "uint32": "unsigned int", "uint64": "long unsigned int", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>", "complex32": "c10::complex<c10::Half>",
}  # fmt: skip
FLOAT_MAXIMUM = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
    "complex64": 3.4028234663852886e38,
    "complex32": 65504.0,
    "complex128": 1.7976931348623157e308,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e8m0fnu": 1.7014118346046923e38,
    "float4_e2m1fn_x2": 6.0,
}

bool_ = dtype(0, "bool", 1, 0, "?")
uint8 = dtype(1, "uint8", 1, 1, "B")
int8 = dtype(2, "int8", 1, 1, "b")
int16 = dtype(3, "int16", 2, 1, "h")
int32 = dtype(4, "int32", 4, 1, "i")
int64 = dtype(5, "int64", 8, 1, "q")
float16 = dtype(6, "float16", 2, 2, "e")
bfloat16 = dtype(7, "bfloat16", 2, 2, "H")
float32 = dtype(8, "float32", 4, 2, "f")
float64 = dtype(9, "float64", 8, 2, "d")
complex64 = dtype(10, "complex64", 8, 3, "F")  # a storage of complex elements holds their parts, interleaved
uint32 = dtype(11, "uint32", 4, 1, "I")
uint16 = dtype(12, "uint16", 2, 1, "H")
uint64 = dtype(13, "uint64", 8, 1, "Q")

complex32 = dtype(14, "complex32", 4, 3, "")
complex128 = dtype(15, "complex128", 16, 3, "D")
for _real, _complex in ((float16, complex32), (float32, complex64), (float64, complex128)):
    _real._complex, _complex._real = _complex, _real
    _complex.stored = _real
bfloat16._complex = complex64

float8_e4m3fn = dtype(16, "float8_e4m3fn", 1, 2, "")
float8_e4m3fnuz = dtype(17, "float8_e4m3fnuz", 1, 2, "")
float8_e5m2 = dtype(18, "float8_e5m2", 1, 2, "")
float8_e5m2fnuz = dtype(19, "float8_e5m2fnuz", 1, 2, "")
#: types whose elements are stored, moved, converted and compared, and hardly computed with
FLOAT8 = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz)
for _each in FLOAT8:
    _each.stored = uint8

# Types that code names and asks limits of; no device stores them.
float8_e8m0fnu = dtype(20, "float8_e8m0fnu", 1, 2, "")
float4_e2m1fn_x2 = dtype(21, "float4_e2m1fn_x2", 1, 2, "")

# Types of numbers that a scale and a zero point make of integers, which are what tensors of them hold.
qint8 = dtype(22, "qint8", 1, 1, "")
quint8 = dtype(23, "quint8", 1, 1, "")
qint32 = dtype(24, "qint32", 4, 1, "")
QUANTIZED = (qint8, quint8, qint32)
for _each, _integers in zip(QUANTIZED, (int8, uint8, int32), strict=True):
    _each.stored, _each.minimum, _each.maximum = _integers, _integers.minimum, _integers.maximum

#: what buffers hold: complex tensors are pairs of these, 8-bit floats are bits in uint8
STORED_DTYPES = (
    bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, uint16, uint32, uint64,
)  # fmt: skip
#: unsigned types that PyTorch promotes with no other integers
UNPROMOTED = (uint16, uint32, uint64)
ALL_DTYPES = (*STORED_DTYPES, *FLOAT8, complex32, complex64, complex128)
BY_NAME = {each.name: each for each in (*ALL_DTYPES, *QUANTIZED)} | {
    "half": float16, "float": float32, "double": float64, "int": int32, "long": int64, "short": int16,
}  # fmt: skip


def require_dtype(function: str, name: str, given: object) -> None:
    """Raise PyTorch's TypeError where an argument is no element type."""
    if not isinstance(given, dtype):
        raise TypeError(f"{function}(): argument '{name}' must be torch.dtype, not {type(given).__name__}")


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest type to which both can be converted, as :func:`torch.promote_types`.

    Raises:
        RuntimeError: an unsigned type of more than 8 bits, with another of integers, booleans or complex numbers; an 8-bit float
            with any other type.
    """
    if type1 is type2:
        return type1
    require_dtype("promote_types", "type1", type1)
    require_dtype("promote_types", "type2", type2)
    if type1 in FLOAT8 or type2 in FLOAT8:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {type1.title} and {type2.title}"
        )
    if type1.is_complex or type2.is_complex:
        low, high = sorted((type1, type2), key=lambda each: each.category)
        _check_promotion(low, high)
        return high if low.category < 2 else promote_types(low.to_real(), high.to_real()).to_complex()
    if type1.category != type2.category:
        if max(type1.category, type2.category) == 1:
            _check_promotion(type1, type2)
        return type1 if type1.category > type2.category else type2
    if type1.category == 1:
        _check_promotion(type1, type2)
        low, high = sorted((type1, type2), key=lambda each: each.itemsize)
        if high.is_signed and (low.is_signed or high.itemsize > low.itemsize):
            return high
        return int16 if high.itemsize == 1 else high
    low, high = sorted((type1, type2), key=lambda each: each.itemsize)
    # float16 and bfloat16 hold neither each other's range nor precision.
    return float32 if low.itemsize == high.itemsize else high


def _check_promotion(type1: dtype, type2: dtype) -> None:
    if type1 in UNPROMOTED or type2 in UNPROMOTED:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{type1.title} and {type2.title}"
        )


def dtype_of_number(value: object, default_float: dtype = float32) -> dtype:
    """Return the type PyTorch gives a Python number: bool, int64, the default float type or its complex type."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    if isinstance(value, float):
        return default_float
    if isinstance(value, complex):
        return default_float.to_complex()
    raise TypeError(f"expected a Python number, got {type(value).__name__}")


def compute_dtype(storage: dtype) -> dtype:
    """Return the type arithmetic is done in for elements stored as ``storage`` (PyTorch's opmath type)."""
    if storage is float16 or storage is bfloat16:
        return float32
    if storage.category == 1 and storage.itemsize < 4:
        return int32
    return storage
