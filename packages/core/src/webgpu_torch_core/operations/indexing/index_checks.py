"""Positions outside of a dimension: refused at once where they are known, else with the next results that are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeGuard

from ...ir import expression as ir
from ...ir.dtypes import dtype, int32, int64
from ...ir.kernels import Operand, Output, Pointwise, Reduction, RowProgram, Store
from ...ir.layouts import Layout, contiguous_strides, number_of_elements
from ...ir.monoids import monoid
from ...notices import warn
from ...record.checks import LARGEST, can_be_known, check_base, check_number, looks
from ...record.node import running
from ...record.tape import Value
from ...tensors.storage import check_countable
from ...tensors.tensor import MetaValue, Tensor
from ..common import kernel_cache, record, type_title

if TYPE_CHECKING:
    import numpy


class PositionError(IndexError, RuntimeError):
    """A position outside of a dimension, for which PyTorch raises an IndexError here and a RuntimeError there."""


def _numbers(value: Value, index: Layout) -> numpy.ndarray:
    """Return computed numbers in the host's memory as an array."""
    device: Any = value.engine.device
    numbers = device.as_array(value.buffer, value.dtype, value.numel)
    if index.is_contiguous:
        return numbers[index.offset : index.offset + index.numel]
    # Slow to import, and seldom needed.
    from numpy.lib.stride_tricks import as_strided

    strides = tuple(each * value.dtype.itemsize for each in index.strides)
    return as_strided(numbers[index.offset :], index.shape, strides, writeable=False)


def _outside_known(value: Value, index: Layout, bounds: Bounds) -> int | None:
    """Return a position among computed numbers in the host's memory that a dimension does not have; None where there is none."""
    numbers = _numbers(value, index)
    least = -bounds.size if bounds.wraps else 0
    low, high = int(numbers.min()), int(numbers.max())
    if least <= low and high < bounds.size:
        return None
    if bounds.ignored is not None:
        numbers = numbers[numbers != bounds.ignored]
        if not numbers.size:
            return None
        low, high = int(numbers.min()), int(numbers.max())
    if low < least:
        return low
    return high if high >= bounds.size else None


def _look(value: Value, index: Layout, bounds: Bounds, error: Callable[[int], Exception]) -> bool:
    """Raise ``error(position)`` for a position that a dimension does not have; return whether the numbers are known to the host.

    A call that is remembered looks again, at what it is given then.
    """
    if not _known(value):
        return False
    if looks.made is not None:
        looks.made.append((value, lambda other: _look(other, index, bounds, error)))
    if looks.later:
        return True
    wrong = _outside_known(value, index, bounds)
    if wrong is not None:
        raise error(wrong)
    return True


def require_inside(
    name: str,
    index: Tensor,
    size: int,
    error: Callable[[int], Exception],
    wraps: bool = False,
    ignored: int | None = None,
    by_reader: bool = False,
    detail: object = None,
    at_once: bool = False,
) -> Report | None:
    """Raise ``error(position)`` for a position that a dimension of a size does not have.

    At once where the numbers are known; else a kernel looks at them where they are, and the next reading of results raises a
    :class:`PositionError` that names the operation. Positions of PyTorch's own functions are right by construction, so
    backward passes check those of custom functions only; neither are they checked again when a recording is replayed.

    ``by_reader``: the kernel that reads (or writes) at these positions, of which there are some, may look at them itself.
    Returns what it needs for that, None where there is nothing left to look at. ``detail``: what the error depends on
    besides name, size and ``wraps``. ``at_once``: the result has no elements that could be read; the device is waited for.
    """

    def late(position: int) -> Exception:
        return PositionError(f"{name}(): {error(position)} (index {position}, size {size})")

    key, engine = (name, size, wraps, detail), index._storage.value.engine
    if by_reader and engine.reports:
        return Report(wraps, engine.recorder.report_code(check_number(key, late))) if _is_checked(index) else None
    if not index.numel() or _look(index._storage.value, index._layout, Bounds(size, wraps, ignored), error):
        return None
    if not _is_checked(index):
        return None
    _check_later(index, Bounds(size, wraps, ignored), check_base(key, late))
    if at_once:
        engine.raise_failed_checks()
    return None


def require_few(mask: Tensor, most: int, error: Exception) -> None:
    """Raise an error where more than ``most`` elements of a mask hold, if they are known."""
    if mask.numel() > most:
        _look_at_count(mask._storage.value, mask._layout, most, error)


def _look_at_count(value: Value, mask: Layout, most: int, error: Exception) -> bool:
    """Raise an error where more than ``most`` truth values hold; return whether the host knows them, as :func:`_look`."""
    if not _known(value):
        return False
    if looks.made is not None:
        looks.made.append((value, lambda other: _look_at_count(other, mask, most, error)))
    if not looks.later and int(_numbers(value, mask).sum()) > most:
        raise error
    return True


def positions_inside(
    name: str, index: Tensor, size: int, error: Callable[[int], Exception], wraps: bool = False, ignored: int | None = None
) -> Tensor:  # fmt: skip
    """Return positions as int64 from the front, in their shape, 0 for ignored ones; what reads them looks at them where it can.

    Others are refused as by :func:`require_inside`.
    """
    report = require_inside(name, index, size, error, wraps, ignored, index.numel() > 0)
    bounds = Bounds(size, wraps, ignored)
    kernel = _positions_kernel(index._layout, index._storage.value.numel, index.dtype, bounds, report is not None)
    return record(kernel, (index,), () if report is None else (report.code,), (index._layout.shape,))


@kernel_cache
def _positions_kernel(index: Layout, numel: int, kind: dtype, bounds: Bounds, reports: bool) -> Pointwise:
    given = _position(index, kind)
    value = ir.cast(given, int64)
    if bounds.size <= int32.maximum:
        # Where none count from the end, what is read is the nearest position, which a look at them compares with.
        value = ir.cast((wrapped_position if bounds.wraps else nearest_position)(given, bounds.size), int64)
    elif bounds.wraps:
        value = ir.select(given < 0, value + bounds.size, value)
    if bounds.ignored is not None:
        value = ir.select(ir.binary("equal", given, bounds.ignored), ir.constant(0, int64), value)
    if reports:
        value = ir.checked(value, _outside(given, bounds), ir.parameter(0, int32), given)
    return Pointwise(
        (Operand(kind, numel),), (Output(int64, index.numel, None),), (int32,) * reports, "positions", index.shape,
        (Store(0, 0, contiguous_strides(index.shape), value),),
    )  # fmt: skip


def indicators(name: str, index: Tensor, size: int, error: Callable[[int], Exception]) -> Tensor:
    """Return int64 numbers: 1 at each position, 0 elsewhere, along a new last dimension of a size.

    Positions outside are refused as by :func:`require_inside`, sizes that nobody has memory for with a RuntimeError.
    """
    check_countable((*index._layout.shape, size), index.numel() * size, int64)
    report = require_inside(name, index, size, error, by_reader=index.numel() > 0 and size > 0)
    kernel = _indicators_kernel(index._layout, index._storage.value.numel, index.dtype, size, report is not None)
    return record(kernel, (index,), () if report is None else (report.code,), ((*index._layout.shape, size),))


@kernel_cache
def _indicators_kernel(index: Layout, numel: int, kind: dtype, size: int, reports: bool) -> Pointwise:
    given, column = ir.load(0, index.offset, (*index.strides, 0), kind), ir.coordinate(index.ndim)
    value = ir.select(ir.binary("equal", given, ir.cast(column, kind)), ir.constant(1, int64), ir.constant(0, int64))
    if reports:
        value = ir.checked(value, _outside(given, Bounds(size, False, None)), ir.parameter(0, int32), given)
    shape = (*index.shape, size)
    return Pointwise(
        (Operand(kind, numel),), (Output(int64, number_of_elements(shape), None),), (int32,) * reports, "one_hot", shape,
        (Store(0, 0, contiguous_strides(shape), value),),
    )  # fmt: skip


def wrapped_position(given: Any, size: int) -> Any:
    """Return an index expression with negative positions counted from the end, kept inside the dimension.

    Positions outside are an error in PyTorch; kernels cannot raise, so they read the nearest element instead of memory
    that is not theirs.
    """
    near = ir.cast(given, _type_of_positions(size))
    return nearest_position(ir.select(near < 0, near + size, near), size)


def nearest_position(given: Any, size: int) -> Any:
    """Return an index expression kept inside the dimension."""
    return ir.apply("minimum", ir.apply("maximum", ir.cast(given, _type_of_positions(size)), 0), max(size - 1, 0))


def _type_of_positions(size: int) -> dtype:
    return int32 if size <= int32.maximum else int64


def require_divisor(name: str, divisor: object) -> None:
    """Raise for an integer division by zero: at once by a number, else with the next results that are read.

    Raises:
        RuntimeError: the number is zero; its message begins as PyTorch's.
    """

    def error(found: int = 0) -> Exception:
        return RuntimeError(f"ZeroDivisionError: {name}() of integers by zero")

    if not isinstance(divisor, Tensor):
        if not divisor:
            raise error()
        return
    if _is_checked(divisor):
        _check_later(divisor, None, check_base((name, "divisor"), error))


class Bounds(NamedTuple):
    """Which positions a dimension has: those below its size, and from the end where ``wraps``; ``ignored`` is for none."""

    size: int
    wraps: bool
    ignored: int | None


class Report(NamedTuple):
    """What a kernel needs to report positions outside: whether they may count from the end, and its first parameter."""

    wraps: bool
    code: int


def _is_checked(numbers: Tensor) -> bool:
    """Return whether numbers that only a kernel can look at are to be looked at."""
    value: Any = numbers._storage.value
    if value.__class__ is MetaValue or not numbers.numel() or value.engine.capture is not None:
        return False
    return not running.nodes or running.nodes[-1].custom


def _check_later(numbers: Tensor, bounds: Bounds | None, base: int) -> None:
    """Record the check that numbers lie inside bounds, or (without bounds) that none of them is zero."""
    value: Any = numbers._storage.value
    engine = value.engine
    kernel = _check_kernel(numbers._layout, value.numel, value.dtype, bounds, engine.recorder.failed is not None)
    values = [value] if engine.recorder.failed is None else [value, engine.recorder.failed]
    engine.recorder.failed = engine.record(kernel, values, (base,))[0]


def _known(value: object) -> TypeGuard[Value]:
    """Return whether numbers can be looked at where they are; they are computed then, unless others will be looked at."""
    if not isinstance(value, Value) or not can_be_known(value):
        return False
    if value.buffer is None and not looks.later:
        if running.nodes and not running.nodes[-1].custom:
            # What a backward pass records is right by construction: no reason to compute a part of it by itself.
            return False
        # A kernel that looks would be one more, and what it finds comes late.
        value.realize()
    return True


@kernel_cache
def _check_kernel(index: Layout, numel: int, kind: dtype, bounds: Bounds | None, further: bool) -> RowProgram:
    """Return the kernel that finds what an earlier check has found, else the greatest number that is wrong."""
    position = _position(index, kind)
    wrong = ir.binary("equal", position, 0) if bounds is None else _outside(position, bounds)
    wide = ir.cast(position, int64)
    bounded = wide if position.dtype is int32 else ir.apply("minimum", ir.apply("maximum", wide, -LARGEST), LARGEST)
    found = ir.select(wrong, ir.parameter(0, int64) + bounded, ir.constant(0, int64))
    result: Any = ir.reduced(0, int64)
    operands = [Operand(kind, numel)]
    if further:
        before = ir.load(1, 0, (), int64)
        result = ir.select(ir.binary("not_equal", before, ir.constant(0, int64)), before, result)
        operands.append(Operand(int64, 1))
    return RowProgram(
        tuple(operands), (Output(int64, 1, None),), (int64,), "check_positions", (), index.shape,
        (Reduction(monoid("maximum", int64), found),), (Store(0, 0, (), result),), (),
    )  # fmt: skip


def _position(source: Layout, kind: dtype) -> ir.Expression:
    """Return positions, the first operand, as narrow as they are: drivers were seen to widen what they compare wrongly."""
    return ir.cast(ir.load(0, source.offset, source.strides, kind), int32 if kind.itemsize < int64.itemsize else int64)


def _outside(position: ir.Expression, bounds: Bounds) -> ir.Expression:
    last, least = bounds.size - 1, -bounds.size if bounds.wraps else 0
    if position.dtype is int32:
        last, least = min(last, int32.maximum), max(least, int32.minimum)
    if position.dtype is int64 and int32.minimum <= least <= last <= int32.maximum:
        # What stands for itself inside is equal to it: cheaper than two comparisons of 64 bits.
        nearest = ir.apply("minimum", ir.apply("maximum", ir.cast(position, int32), least), last)
        wrong = ir.binary("not_equal", position, ir.cast(nearest, int64))
    else:
        wrong = ir.binary("bitwise_or", position < least, ir.binary("less", last, position))
    if bounds.ignored is not None:
        wrong = ir.binary("bitwise_and", wrong, ir.binary("not_equal", position, bounds.ignored))
    return wrong


def check_positions(
    name: str, index: Tensor, size: int, dim: int, error: type[Exception] = RuntimeError, wraps: bool = False,
    prefix: str = "", by_reader: bool = False, at_once: bool = False,
) -> Report | None:  # fmt: skip
    """Raise where a position is outside of a dimension: at once, or with the next results that are read.

    ``by_reader``, ``at_once`` and what is returned: as for :func:`require_inside`.

    Raises:
        RuntimeError: by default; IndexError for subscripts.
    """

    def refusal(position: int) -> Exception:
        if size == 0 and wraps:
            return error("index is out of bounds for dimension with size 0")
        return error(f"{prefix}index {position} is out of bounds for dimension {dim} with size {size}")

    return require_inside(name, index, size, refusal, wraps, None, by_reader, (dim, error, prefix), at_once)


def check_selected(name: str, input: Tensor, axis: int, index: Tensor) -> Report | None:
    """Raise where a position of slices that are selected along a dimension is outside of it, or have the reader report it.

    Raises:
        RuntimeError: the dimension has none, or it is the second one: PyTorch has a path of its own for columns.
        IndexError: otherwise.
    """
    size, bare = input._layout.shape[axis], input.ndim > 1 and not input.numel()
    if not size and bare and index.numel():
        raise RuntimeError("index_select(): self indexing axis dim should be positive")

    def refusal(found: int) -> Exception:
        if axis == 1 or bare:
            return RuntimeError(f"INDICES element is out of DATA bounds, id={found} axis_dim={size}")
        return IndexError("index out of range in self")

    # Where there are no elements, no kernel reads.
    empty = not input.numel()
    return require_inside(name, index, size, refusal, False, None, not empty, axis == 1 or bare, empty)


def check_written(name: str, input: Tensor, axis: int, index: Tensor) -> Report | None:
    """Raise where a position of a write along a dimension is outside of it, or have the writer report it."""
    size, by_reader = input._layout.shape[axis], input.numel() > 0
    # PyTorch raises an IndexError or a RuntimeError for index_add, by how the memory of its operands lies.
    error = PositionError if name == "index_add" else IndexError
    prefix = "index_copy_(): " if name == "index_copy" else ""
    return check_positions(name, index, size, axis, error, name == "index_fill", prefix, by_reader, not by_reader)


def check_source(name: str, input: Tensor, axis: int, index: Tensor, source: Tensor) -> None:
    """Raise where the index or the source of a write along a dimension does not fit, in PyTorch's order.

    Raises:
        IndexError: an index of more than one dimension, or a source of another number of dimensions or slices.
        RuntimeError: types or slices that do not fit.
    """
    count, copies = index.numel(), name == "index_copy"
    if index.ndim > 1:
        raise IndexError(f"{name}_(): Index is supposed to be a vector, but got {index.ndim} dimensions")
    if copies and not source.ndim and count != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {count})")
    if copies and source.ndim and input.ndim and source.ndim != input.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({input.ndim})"
        )
    if index.dtype not in ((int64,) if copies else (int64, int32)):
        raise RuntimeError(
            f"{name}_(): Expected dtype int{'' if copies else '32/int'}64 for index but got {index.dtype!r}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}_(): self ({type_title(input)}) and source ({type_title(source)}) must have the same scalar type"
        )
    if not copies:
        _check_count(name, axis, count, source, IndexError if not source.ndim else RuntimeError)
    own, given = list(input._layout.shape), list(source._layout.shape)
    for sizes in (own, given) if copies or (own and given) else ():
        del sizes[axis : axis + 1]
    if own != given and not copies:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    if own != given:
        raise RuntimeError(
            f"{name}_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, own))} at dimension {axis} and source slice shape: "
            f"{' '.join(map(str, given))} at dimension 0."
        )
    if copies:
        _check_count(name, axis, count, source, IndexError)


def _check_count(name: str, axis: int, count: int, source: Tensor, error: type[Exception]) -> None:
    have = source._layout.shape[axis] if axis < source.ndim else 1
    if have != count:
        told = f" ({have})" if name == "index_copy" else f": ({have}), for dim: {axis}"
        raise error(f"{name}_(): Number of indices ({count}) should be equal to source.size(dim){told}")


def reporting(value: Any, given: Any, position: Any, size: int, wraps: bool | None) -> Any:
    """Return a value that reports the index ``given`` where it does not stand for ``position``, which was read or written.

    ``wraps``: whether negative ones count from the end; None reports nothing. The code is the kernel's first parameter.
    """
    if wraps is None:
        return value
    near = ir.cast(given, _type_of_positions(size))
    # Compared as narrow as they are: drivers were seen to widen wrongly.
    asked = near if given.dtype.itemsize < int64.itemsize else ir.cast(given, int64)
    stands = ir.select(near < 0, position - size, position) if wraps else position
    return ir.checked(value, ir.binary("not_equal", asked, stands), ir.parameter(0, int32), asked)


def means_tuple(subscript: object) -> bool:
    """Return whether a list stands for a tuple of subscripts, by NumPy's old rule, which PyTorch keeps with a warning."""
    parts = (Tensor, list, tuple, range, slice, str)
    if not isinstance(subscript, list) or len(subscript) >= 32:
        return False
    if not any(each is None or each is Ellipsis or isinstance(each, parts) for each in subscript):
        return False
    warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
        "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which "
        "will result either in an error or a different result"
    )
    return True


def in_range(position: int, size: int, dim: int) -> int:
    """Return a position of a dimension of a size.

    Raises:
        IndexError: it is outside.
    """
    # PyTorch counts the parts of a subscript, not the dimensions.
    if not -size <= position < size:
        raise IndexError(f"index {position} is out of bounds for dimension {dim} with size {size}")
    return position


def bound(value: object) -> int:
    """Return where a slice begins or ends, as Python's int.

    Raises:
        TypeError: it is no integer.
    """
    if type(value) is int:
        # To ask whether a number has a method takes longer than the rest of a slice.
        return value
    if not isinstance(value, SupportsIndex):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    try:
        return int(value.__index__())
    except TypeError as error:
        raise TypeError("only integer tensors of a single element can be converted to an index") from error
