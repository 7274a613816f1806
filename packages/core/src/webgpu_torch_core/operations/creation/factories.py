"""Making tensors: from host data, filled, ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import (
    ALL_DTYPES,
    BY_NAME,
    bool_,
    complex128,
    compute_dtype,
    dtype,
    dtype_of_number,
    float32,
    float64,
    int64,
    promote_types,
)
from ...ir.host_bytes import check_number, flatten, pack, require_numpy, stored
from ...ir.kernels import Output, Pointwise, Store
from ...ir.layouts import contiguous_layout, number_of_elements
from ...notices import refuse_place_of_copy, warn_of_arrays, warn_of_copy
from ...record.devices import MetaEngine, canonical_device, device, engine_for, get_default_device
from ...replay.creations import remembered_creation, remembered_likeness
from ...tensors.memory_formats import dense_layout, memory_format
from ...tensors.storage import check_countable
from ...tensors.tensor import MetaValue, Size, Tensor, check_supported
from ..common import (
    as_leaf,
    kernel_cache,
    laid_out,
    one_or_named,
    one_tuple_of_sizes,
    record_on,
    require_layout,
    require_tensor,
    sizes_from,
)
from ..complex.interleaving import complex_alias, join
from ..elementwise.call import default_float
from ..float8.bits import float8_alias
from ..outputs import into
from .undefined import marked, undefined

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike

_PYTHON_TYPES = {float: float64, int: int64, bool: bool_, complex: complex128}


def as_dtype(kind: Any) -> dtype | None:
    """Return an element type given as one, or as Python's float, int, bool or complex."""
    if kind in _PYTHON_TYPES:
        return _PYTHON_TYPES[kind]
    if kind is not None and not isinstance(kind, dtype):
        raise TypeError(
            f"dtype must be torch.dtype, not {type(kind).__name__}; one of {', '.join(map(repr, ALL_DTYPES))}"
        )
    return kind


def asked(dtype: Any, place: DeviceLike, out: Tensor | None, usual: dtype) -> tuple[dtype, device]:
    """Return the element type and device of a new tensor: what is given, else those of ``out``, else the usual ones.

    Raises:
        RuntimeError: a type that is not that of ``out``.
    """
    if out is None:
        return as_dtype(dtype) or usual, place_of(place)
    wanted = as_dtype(dtype)
    if wanted is not None and wanted is not out.dtype:
        raise RuntimeError(f"dtype {wanted.title} does not match dtype of out parameter ({out.dtype.title})")
    return wanted or out.dtype, out.device if place is None else place_of(place)


def place_of(where: Any) -> device:
    """Return a device argument as a device, the default one for None."""
    return get_default_device() if where is None else canonical_device(where)


def from_bytes(data: Any, shape: tuple[int, ...], kind: dtype, where: Any = None, kept: bool = False) -> Tensor:
    """Return a contiguous tensor holding host bytes: ``kept`` where they are, if the device can, as nobody else holds them."""
    place = place_of(where)
    engine = engine_for(place)
    if kind.is_complex:
        check_supported(engine, kind)
        return complex_alias(from_bytes(data, (*shape, 2), kind.to_real(), place, kept))
    layout = contiguous_layout(shape)
    if isinstance(engine, MetaEngine):
        return Tensor._from_value(MetaValue(engine, kind.stored, layout.numel), layout, kind, place)
    check_supported(engine, kind)
    value = engine.keep(kind.stored, data) if kept else engine.upload(kind.stored, data)
    return Tensor._from_value(value, layout, kind, place)


@operation("creation", method=False)
def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor copied from numbers, nested sequences, an array or a tensor, or one that shares a storage's memory.

    Raises:
        ValueError: nested sequences of unequal length.
        TypeError: elements that are not numbers, or lists that hold themselves.
        RuntimeError: a storage of another type than ``dtype``.
    """
    kind = as_dtype(dtype)
    if isinstance(data, Tensor):
        warn_of_copy("torch.tensor")
    elif hasattr(data, "as_elements"):  # of a storage, whose memory it shares
        data = data.as_elements(kind)
        if device is None or canonical_device(device) == data.device:
            return data.requires_grad_() if requires_grad else data
    if isinstance(data, Tensor):
        result = data.detach().to(device=data.device if device is None else device, dtype=kind or data.dtype, copy=True)
    elif hasattr(data, "__array_interface__") or type(data).__module__ == "numpy":
        result = array_tensor(data, kind, device)
    else:
        if data.__class__ in (list, tuple) and data and type(data[0]).__name__ == "ndarray":
            warn_of_arrays()
        shape, numbers = flatten(data)
        inferred, numbers = _inferred(numbers, kind)
        result = from_bytes(pack(numbers, inferred), shape, inferred, device)
    return as_leaf(result, requires_grad)


def _inferred(numbers: list[Any], kind: dtype | None) -> tuple[dtype, list[Any]]:
    """Return the type that numbers have together, unless it is given, and the numbers as Python's own."""
    classes = {each.__class__ for each in numbers}
    if all(each in (float, int, bool) for each in classes):
        usual = default_float[0] if float in classes or not classes else int64 if int in classes else bool_
        return kind or usual, numbers
    best, plain = None, []
    for each in numbers:
        found = _type_of(each) if kind is None else kind
        best = found if best is None else promote_types(best, found)
        plain.append(each.item() if type(each).__module__ == "numpy" or isinstance(each, Tensor) else each)
    return best or default_float[0], plain


def _type_of(value: Any) -> dtype:
    if isinstance(value, Tensor):
        return value.dtype
    if type(value).__module__ == "numpy" and value.dtype.name in BY_NAME:
        return BY_NAME[value.dtype.name]
    if not isinstance(value, bool | int | float | complex | str | bytes):
        raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")
    return dtype_of_number(value, default_float[0]) if not isinstance(value, str | bytes) else default_float[0]


def array_tensor(data: Any, kind: dtype | None, where: Any) -> Tensor:
    """Return a copy of a NumPy array.

    Raises:
        TypeError: elements of a type that tensors do not have.
        ValueError: negative strides.
    """
    numpy = require_numpy("a tensor of an array")
    if any(stride < 0 for stride in data.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently "
            "supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    given = numpy.ascontiguousarray(data)
    name = given.dtype.name
    if name not in BY_NAME:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{given.dtype.type.__name__}. The only supported types are: float64, float32, "
            "float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )
    result = from_bytes(given.tobytes(), tuple(numpy.shape(data)), BY_NAME[name], where)
    return result if kind is None or kind is result.dtype else result.to(kind)


@operation("creation", method=False)
def as_tensor(data: Any, dtype: dtype | None = None, device: DeviceLike = None) -> Tensor:
    """The tensor itself where possible, else a copy."""
    kind = as_dtype(dtype)
    if isinstance(data, Tensor):
        return data.to(device=data.device if device is None else device, dtype=kind or data.dtype)
    if type(data).__module__ == "numpy" and hasattr(data, "ctypes"):
        # A circle: that module imports this one.
        from .host_memory import from_numpy

        shared = from_numpy(data)
        return shared.to(device=get_default_device() if device is None else device, dtype=kind or shared.dtype)
    return tensor(data, dtype=kind, device=device)


# Fills


@kernel_cache
def fill_kernel(shape: tuple[int, ...], kind: dtype) -> Pointwise:
    """Return the kernel that stores one run-time number everywhere."""
    layout = contiguous_layout(shape)
    compute = compute_dtype(kind)
    number = bool_ if kind is bool_ else compute
    value = ir.cast(ir.parameter(0, number), kind)
    return Pointwise(
        (), (Output(kind, layout.numel, None),), (number,), "fill", shape, (Store(0, 0, layout.strides, value),)
    )


def filled(shape: tuple[int, ...], value: Any, kind: dtype, place: device) -> Tensor:
    """Return a tensor of one number."""
    engine = engine_for(place)
    if kind.stored is not kind:
        check_supported(engine, kind)
    if kind.is_complex:
        check_number(value, kind)
        number = complex(value)
        return join(number.real, number.imag, contiguous_layout(shape), place, kind=kind.to_real())
    check_countable(shape, number_of_elements(shape), kind)
    # A single element is written as it is, rounded to infinity where its type has few bits; PyTorch refuses to fill more with that.
    is_rounded = kind.category == 2 and kind.itemsize < 4 and number_of_elements(shape) == 1
    check_number(value, float64 if is_rounded else kind)
    if isinstance(value, complex):
        value = value != 0 if kind is bool_ else value.real
    if is_rounded:
        value = stored(value, float32)
    if kind.stored is not kind:
        return float8_alias(filled(shape, pack((value,), kind)[0], kind.stored, place), kind)
    if kind.category < 2:
        value = bool(value) if kind is bool_ else int(value)
    return record_on(engine, place, fill_kernel(shape, kind), (), (value,), (contiguous_layout(shape),))


def number_of(input: Tensor, value: complex) -> Tensor:
    """Return a number as a tensor of no dimensions beside a tensor.

    Raises:
        RuntimeError: the tensor's type cannot hold the number.
    """
    check_number(value, input.dtype)
    return filled((), value, input.dtype, input.device)


def _single_number(function: str, value: Tensor) -> Any:
    if value.ndim:
        raise TypeError(f"{function}(): argument 'fill_value' (position 2) must be Number, not Tensor")
    return value.item()


@operation("creation", method=False)
@remembered_creation
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of one number; its type follows the number unless given."""
    require_layout(layout, pin_memory)
    if isinstance(fill_value, Tensor):
        fill_value = _single_number("full", fill_value)
    elif type(fill_value).__module__ == "numpy":
        # PyTorch takes NumPy's truth values for floats.
        fill_value = float(fill_value) if fill_value.dtype.name == "bool" else fill_value.item()
    kind, place = asked(dtype, device, out, dtype_of_number(fill_value, default_float[0]))
    result = filled(one_tuple_of_sizes("full", size, 1), fill_value, kind, place)
    if out is not None:
        return into(result, out)
    return as_leaf(result, requires_grad)


def _constant(name: str, value: int, doc: str) -> Any:
    def function(
        *size: Any,
        out: Tensor | None = None,
        dtype: dtype | None = None,
        layout: Any = None,
        device: DeviceLike = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named: Any,
    ) -> Tensor:
        require_layout(layout, pin_memory)
        shape = sizes_from(one_or_named(name, size, named, "size"))
        if any(each < 0 for each in shape):
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
        result = filled(shape, value, *asked(dtype, device, out, default_float[0]))
        if out is not None:
            return into(result, out)
        return as_leaf(result, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return operation("creation", method=False)(remembered_creation(function))


zeros = _constant("zeros", 0, "A tensor of zeros.")
ones = _constant("ones", 1, "A tensor of ones.")


@operation("creation", method=False)
def empty(
    *size: Any,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:
    """A tensor of undefined contents."""
    require_layout(layout, pin_memory)
    if out is not None:
        asked(dtype, device, out, out.dtype)
        return marked(out if out._layout.shape == sizes_from(size) else out.resize_(sizes_from(size)))
    made = undefined(sizes_from(size), as_dtype(dtype) or default_float[0], place_of(device))
    result = laid_out(made, dense_layout(made._layout, memory_format))
    return as_leaf(result, requires_grad)


def _like(name: str, doc: str, make: Any) -> Any:
    def function(
        input: Tensor,
        *,
        dtype: dtype | None = None,
        layout: Any = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        memory_format: memory_format | None = None,
        pin_memory: bool = False,
    ) -> Tensor:
        require_layout(layout, pin_memory)
        require_tensor(name, "input", 1, input)
        place = input.device if device is None else canonical_device(device)
        result = make(input._layout.shape, as_dtype(dtype) or input.dtype, place)
        result = laid_out(result, dense_layout(input._layout, memory_format))
        return as_leaf(result, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return operation("creation", method=False)(remembered_likeness(function))


zeros_like = _like("zeros_like", "Zeros of the input's shape and type.", lambda s, k, p: filled(s, 0, k, p))
ones_like = _like("ones_like", "Ones of the input's shape and type.", lambda s, k, p: filled(s, 1, k, p))
empty_like = _like("empty_like", "Undefined contents of the input's shape and type.", undefined)


@operation("creation", method=False)
@remembered_likeness
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """One number in the input's shape and type."""
    require_layout(layout, pin_memory)
    require_tensor("full_like", "input", 1, input)
    place = input.device if device is None else canonical_device(device)
    if isinstance(fill_value, Tensor):
        fill_value = _single_number("full_like", fill_value)
    result = filled(input._layout.shape, fill_value, as_dtype(dtype) or input.dtype, place)
    result = laid_out(result, dense_layout(input._layout, memory_format))
    return as_leaf(result, requires_grad)


def _new(name: str, value: int | None) -> None:
    def method(
        self: Tensor,
        *size: Any,
        dtype: dtype | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        require_layout(layout, pin_memory)
        place = self.device if device is None else canonical_device(device)
        kind = as_dtype(dtype) or self.dtype
        shape = sizes_from(size)
        result = undefined(shape, kind, place) if value is None else filled(shape, value, kind, place)
        return as_leaf(result, requires_grad)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As ``torch.{name[4:]}`` with this tensor's type and device."
    operation("creation", namespace="method")(remembered_likeness(method))


_new("new_zeros", 0)
_new("new_ones", 1)
_new("new_empty", None)


@operation("creation", namespace="method")
@remembered_likeness
def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """As ``torch.full`` with this tensor's type and device."""
    require_layout(layout, pin_memory)
    kind, place = as_dtype(dtype) or self.dtype, self.device if device is None else device
    return full(size, fill_value, dtype=kind, device=place, requires_grad=requires_grad)


@operation("creation", namespace="method")
def new_tensor(
    self: Tensor, data: Any, *, dtype: dtype | None = None, device: DeviceLike = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """As ``torch.tensor`` with this tensor's type and device."""
    device = self.device if device is None else device
    if isinstance(data, Tensor):
        warn_of_copy("tensor.new_tensor")
        return data.detach().to(device, as_dtype(dtype) or self.dtype, copy=True).requires_grad_(requires_grad)
    return tensor(data, dtype=as_dtype(dtype) or self.dtype, device=device, requires_grad=requires_grad)


def legacy_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """``torch.Tensor(sizes…)`` or ``torch.Tensor(data)``."""
    place = kwargs.get("device")
    args = args or tuple(kwargs[name] for name in ("data", "size") if name in kwargs) or (0,)
    if len(args) == 1 and not isinstance(args[0], int | Size):
        if isinstance(args[0], Tensor):
            refuse_place_of_copy("constructor of the form torch.Tensor", place)
            return args[0].detach()
        return tensor(args[0], dtype=default_float[0], device="cpu" if place is None else place)
    # As in PyTorch, on the CPU unless told otherwise: contexts of devices do not count here.
    return empty(*args, device="cpu" if place is None else place)
