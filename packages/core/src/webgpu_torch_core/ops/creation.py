"""Making tensors: from host data, filled, ranges."""

from __future__ import annotations

import math
from typing import Any

from .. import expression as ir
from ..devices import MetaEngine, canonical_device, device, engine_for, get_default_device
from ..dtypes import ALL_DTYPES, bool_, complex64, compute_dtype, dtype, dtype_of_number, float64, int64
from ..host_data import flatten, pack
from ..kernels import Output, Pointwise, Store
from ..layouts import contiguous_layout
from ..tensor import MetaValue, Tensor, check_supported, empty_tensor
from .common import kernel_cache, record_on, sizes_from
from .elementwise_call import default_float
from .registry import operation

_PYTHON_TYPES = {float: None, int: int64, bool: bool_, complex: complex64}


def as_dtype(kind: Any) -> dtype | None:
    """Return an element type given as one, or as Python's float, int, bool or complex."""
    if kind in _PYTHON_TYPES:
        return _PYTHON_TYPES[kind] or default_float[0]
    if kind is not None and not isinstance(kind, dtype):
        raise TypeError(
            f"dtype must be torch.dtype, not {type(kind).__name__}; one of {', '.join(map(repr, ALL_DTYPES))}"
        )
    return kind


def place_of(where: Any) -> device:
    """Return a device argument as a device, the default one for None."""
    return get_default_device() if where is None else canonical_device(where)


def from_bytes(data: Any, shape: tuple[int, ...], kind: dtype, where: Any = None) -> Tensor:
    """Return a contiguous tensor holding host bytes."""
    place = place_of(where)
    engine = engine_for(place)
    layout = contiguous_layout(shape)
    if isinstance(engine, MetaEngine):
        return Tensor._from_value(MetaValue(engine, kind, layout.numel), layout, kind, place)
    check_supported(engine, kind)
    return Tensor._from_value(engine.upload(kind, data), layout, kind, place)


@operation("creation", method=False)
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor copied from numbers, nested sequences, an array or a tensor.

    Raises:
        ValueError: nested sequences of unequal length.
        TypeError: elements that are not numbers.
    """
    del pin_memory
    kind = as_dtype(dtype)
    if isinstance(data, Tensor):
        result = data.detach().to(device=device or data.device, dtype=kind or data.dtype, copy=True)
    elif hasattr(data, "__array_interface__") or type(data).__module__ == "numpy":
        result = _from_array(data, kind, device)
    else:
        shape, numbers = flatten(data)
        inferred = kind or _infer(numbers)
        result = from_bytes(pack(numbers, inferred), shape, inferred, device)
    return result.requires_grad_() if requires_grad else result


def _infer(numbers: list[Any]) -> dtype:
    best = None
    for each in numbers:
        found = each.dtype if isinstance(each, Tensor) else dtype_of_number(each, default_float[0])
        if best is None or found.category > best.category:
            best = found
    return best or default_float[0]


def _from_array(data: Any, kind: dtype | None, where: Any) -> Tensor:
    import numpy

    from ..dtypes import BY_NAME

    given = numpy.ascontiguousarray(data)
    name = given.dtype.name
    if name not in BY_NAME:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{name}. The supported types are: {', '.join(each.name for each in ALL_DTYPES)}."
        )
    result = from_bytes(given.tobytes(), tuple(numpy.shape(data)), BY_NAME[name], where)
    return result if kind is None or kind is result.dtype else result.to(kind)


@operation("creation", method=False)
def as_tensor(data, dtype=None, device=None):
    """The tensor itself where possible, else a copy."""
    kind = as_dtype(dtype)
    if isinstance(data, Tensor):
        return data.to(device=device or data.device, dtype=kind or data.dtype)
    if type(data).__module__ == "numpy" and hasattr(data, "ndim") and device is None and kind is None and data.ndim:
        return from_numpy(data)
    return tensor(data, dtype=kind, device=device)


@operation("creation", method=False)
def from_numpy(ndarray):
    """A CPU tensor sharing an array's memory."""
    from ..dtypes import BY_NAME
    from ..graph import Value

    if type(ndarray).__module__ != "numpy":
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if ndarray.dtype.name not in BY_NAME:
        raise TypeError(f"can't convert np.ndarray of type numpy.{ndarray.dtype.name}.")
    kind = BY_NAME[ndarray.dtype.name]
    place = canonical_device("cpu")
    engine = engine_for(place)
    wrap = getattr(engine.device, "wrap_host", None)
    if wrap is None or not ndarray.flags.c_contiguous or ndarray.size == 0 or not ndarray.flags.writeable:
        return _from_array(ndarray, None, place)
    value = Value(engine, kind, ndarray.size, wrap(ndarray))
    value.shared = True
    return Tensor._from_value(value, contiguous_layout(tuple(ndarray.shape)), kind, place)


@operation("creation", method=False)
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor of the elements in a bytes-like object."""
    view = memoryview(buffer).cast("B")[offset:]
    length = len(view) // dtype.itemsize if count < 0 else count
    result = from_bytes(view[: length * dtype.itemsize], (length,), dtype, "cpu")
    return result.requires_grad_() if requires_grad else result


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
    if kind.category == 1:
        value = int(value)
    number = bool(value) if kind is bool_ else value
    return record_on(engine, place, fill_kernel(shape, kind), (), (number,), (contiguous_layout(shape),))


@operation("creation", method=False)
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """A tensor of one number; its type follows the number unless given."""
    del layout
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    kind = as_dtype(dtype) or dtype_of_number(fill_value, default_float[0])
    result = filled(sizes_from((size,)), fill_value, kind, place_of(device))
    if out is not None:
        return out.copy_(result)
    return result.requires_grad_() if requires_grad else result


def _constant(name: str, value: int, doc: str) -> Any:
    def function(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **named):
        del layout, pin_memory
        if "size" in named:
            size = (named.pop("size"),)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        shape = sizes_from(size)
        if any(each < 0 for each in shape):
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
        result = filled(shape, value, as_dtype(dtype) or default_float[0], place_of(device))
        if out is not None:
            return out.copy_(result)
        return result.requires_grad_() if requires_grad else result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return operation("creation", method=False)(function)


zeros = _constant("zeros", 0, "A tensor of zeros.")
ones = _constant("ones", 1, "A tensor of ones.")


@operation("creation", method=False)
def empty(
    *size, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None
):
    """A tensor of undefined contents."""
    del layout, pin_memory, memory_format
    if out is not None:
        return out.resize_(sizes_from(size))
    result = empty_tensor(sizes_from(size), as_dtype(dtype) or default_float[0], place_of(device))
    return result.requires_grad_() if requires_grad else result


def _like(name: str, doc: str, make: Any) -> Any:
    def function(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None):
        del layout, memory_format
        place = input.device if device is None else canonical_device(device)
        result = make(input._layout.shape, as_dtype(dtype) or input.dtype, place)
        return result.requires_grad_() if requires_grad else result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return operation("creation", method=False)(function)


zeros_like = _like("zeros_like", "Zeros of the input's shape and type.", lambda s, k, p: filled(s, 0, k, p))
ones_like = _like("ones_like", "Ones of the input's shape and type.", lambda s, k, p: filled(s, 1, k, p))
empty_like = _like("empty_like", "Undefined contents of the input's shape and type.", empty_tensor)


@operation("creation", method=False)
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None):
    """One number in the input's shape and type."""
    del layout, memory_format
    place = input.device if device is None else canonical_device(device)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    result = filled(input._layout.shape, fill_value, as_dtype(dtype) or input.dtype, place)
    return result.requires_grad_() if requires_grad else result


def _new(name: str, value: int | None) -> None:
    def method(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
        del layout, pin_memory
        place = self.device if device is None else canonical_device(device)
        kind = as_dtype(dtype) or self.dtype
        shape = sizes_from(size)
        result = empty_tensor(shape, kind, place) if value is None else filled(shape, value, kind, place)
        return result.requires_grad_() if requires_grad else result

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As ``torch.{name[4:]}`` with this tensor's type and device."
    operation("creation", namespace="method")(method)


_new("new_zeros", 0)
_new("new_ones", 1)
_new("new_empty", None)


@operation("creation", namespace="method")
def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """As ``torch.full`` with this tensor's type and device."""
    del layout, pin_memory
    return full(
        size, fill_value, dtype=as_dtype(dtype) or self.dtype, device=device or self.device, requires_grad=requires_grad
    )


@operation("creation", namespace="method")
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """As ``torch.tensor`` with this tensor's type and device."""
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


# Ranges


@kernel_cache
def range_kernel(count: int, kind: dtype) -> Pointwise:
    """Return the kernel computing ``start + step * position``."""
    compute = compute_dtype(kind)
    position = ir.cast(ir.coordinate(0), compute)
    value = ir.cast(ir.parameter(0, compute) + position * ir.parameter(1, compute), kind)
    return Pointwise(
        (), (Output(kind, count, None),), (compute, compute), "arange", (count,), (Store(0, 0, (1,), value),)
    )


def _range(count: int, start: Any, step: Any, kind: dtype, place: device) -> Tensor:
    engine = engine_for(place)
    if compute_dtype(kind).category == 1:
        start, step = int(start), int(step)
    return record_on(engine, place, range_kernel(count, kind), (), (start, step), (contiguous_layout((count,)),))


@operation("creation", method=False)
def arange(
    start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """Numbers from ``start`` up to but without ``end``.

    Raises:
        RuntimeError: the step is zero or points away from the end.
    """
    del layout, pin_memory
    if end is None:
        start, end = 0, start
    start, end, step = (each.item() if isinstance(each, Tensor) else each for each in (start, end, step))
    kind = as_dtype(dtype)
    if kind is None:
        kind = default_float[0] if any(isinstance(each, float) for each in (start, end, step)) else int64
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if all(isinstance(each, int) for each in (start, end, step)):
        count = -((start - end) // step)
    else:
        count = math.ceil((end - start) / step)
    result = _range(max(count, 0), start, step, kind, place_of(device))
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return result.requires_grad_() if requires_grad else result


@kernel_cache
def linspace_kernel(count: int, kind: dtype) -> Pointwise:
    """Return the kernel that steps from both ends to the middle, as PyTorch does for symmetry."""
    compute = compute_dtype(kind)
    work = compute if compute.category == 2 else float64
    position = ir.coordinate(0)
    low = ir.parameter(0, work) + ir.cast(position, work) * ir.parameter(2, work)
    high = ir.parameter(1, work) - ir.cast((count - 1) - position, work) * ir.parameter(2, work)
    value = ir.cast(ir.select(position < (count // 2), low, high), kind)
    return Pointwise(
        (), (Output(kind, count, None),), (work, work, work), "linspace", (count,), (Store(0, 0, (1,), value),)
    )


@operation("creation", method=False)
def linspace(
    start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """``steps`` numbers evenly spaced from ``start`` to ``end``, both included."""
    del layout, pin_memory
    start, end = (each.item() if isinstance(each, Tensor) else each for each in (start, end))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    kind = as_dtype(dtype) or default_float[0]
    place = place_of(device)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    if kind.category < 2:
        values = [int(start + step * i) if i < steps // 2 else int(end - step * (steps - 1 - i)) for i in range(steps)]
        result = tensor(values, dtype=kind, device=place)
    else:
        parameters = (float(start), float(end if steps != 1 else start), float(step))
        result = record_on(
            engine_for(place), place, linspace_kernel(steps, kind), (), parameters, (contiguous_layout((steps,)),)
        )
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return result.requires_grad_() if requires_grad else result


@kernel_cache
def eye_kernel(rows: int, columns: int, kind: dtype) -> Pointwise:
    """Return the kernel with ones where both coordinates agree."""
    one = ir.select(ir.binary("equal", ir.coordinate(0), ir.coordinate(1)), 1, 0)
    layout = contiguous_layout((rows, columns))
    store = Store(0, 0, layout.strides, ir.cast(one, kind))
    return Pointwise((), (Output(kind, layout.numel, None),), (), "eye", (rows, columns), (store,))


@operation("creation", method=False)
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """The identity matrix."""
    del layout, pin_memory
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {min(n, columns)}")
    place = place_of(device)
    kernel = eye_kernel(n, columns, as_dtype(dtype) or default_float[0])
    result = record_on(engine_for(place), place, kernel, (), (), (contiguous_layout((n, columns)),))
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return result.requires_grad_() if requires_grad else result


def legacy_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """``torch.Tensor(sizes…)`` or ``torch.Tensor(data)``."""
    place = kwargs.get("device")
    if len(args) == 1 and not isinstance(args[0], int):
        if isinstance(args[0], Tensor):
            return args[0].detach()
        return tensor(args[0], dtype=default_float[0], device=place)
    return empty(*args, device=place)
