"""What depends on which elements are not zero: their positions, and reading and writing where a mask holds."""

from __future__ import annotations

from typing import Any, TypeGuard

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import bool_, dtype, float32, int32, int64, uint8, uint32
from ...ir.kernels import Operand, Output, Pointwise, Reduction, RowProgram, Store
from ...ir.layouts import Layout, broadcast_shapes, contiguous_strides, layout
from ...ir.monoids import monoid
from ...record.devices import stores_some
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import attach_zeros, check_apart, kernel_cache, needs_gradient, no_view, record, row_major, type_title
from ..creation.ranges import arange
from ..creation.strided import constant_pad_nd
from ..elementwise.choosing import where
from ..host_algorithms import has_algorithm, host_call
from ..in_place.writing import check_distinct, without_repeats
from ..movement.joining import cat
from ..movement.splitting import unbind
from ..outputs import into
from .gathering import take_positions
from .index_checks import positions_inside, require_few


@operation("indexed")
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero, as rows (or as one tensor per dimension).

    Raises:
        RuntimeError: ``out`` is not of int64, or given for a tuple.
    """
    if as_tuple and out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if out is not None and out.dtype is not int64:
        raise RuntimeError(f"nonzero: Expected out tensor to have scalar type Long but got {out.dtype!r}")
    positions = nonzero_positions(input)
    rows = coordinates(positions, input._layout.shape)
    if as_tuple:
        return unbind(rows if input.ndim else positions.unsqueeze(0), 0)
    count = positions._layout.numel
    if not input.ndim:
        return into(no_view(input.new_zeros((count, 0), dtype=int64).as_strided((count, 0), (1, count))), out)
    # Column-major, as PyTorch's.
    place = layout((count, input.ndim), (1, count))
    return into(Tensor._from_storage(rows._storage, place, int64, rows.device), out)


def coordinates(positions: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return flat positions in a shape, [n], by dimensions, [dimensions, n]."""
    count = positions._layout.numel
    if not (count and shape):
        return positions.new_zeros((len(shape), count))
    kernel = _coordinates_kernel(positions._layout, positions._storage.value.numel, shape)
    return record(kernel, (positions,), (), ((len(shape), count),))


@kernel_cache
def _coordinates_kernel(positions: Layout, numel: int, shape: tuple[int, ...]) -> Pointwise:
    """Return the kernel of :func:`coordinates`: all that a position says is stored at once."""
    count, stores = positions.numel, []
    rest: ir.Expression = ir.load(0, positions.offset, positions.strides, int64)
    for dim, stride in enumerate(contiguous_strides(shape)):
        value = ir.constant(0, int64) if shape[dim] == 1 else rest
        if shape[dim] != 1 and stride != 1:
            value = ir.binary("floor_divide", rest, stride)
            rest = rest - value * stride
        stores.append(Store(0, dim * count, (1,), value))
    output = Output(int64, count * len(shape), None)
    return Pointwise((Operand(int64, numel),), (output,), (), "coordinates", (count,), tuple(stores))


def nonzero_positions(input: Tensor) -> Tensor:
    """Return flat positions of the elements that are not zero, in order."""
    flags = _flags(input)
    if flags.numel() == 0:
        return input.new_zeros((0,), dtype=int64)
    if has_algorithm(flags, "nonzero"):
        return host_call("nonzero", (flags,), None, (int64,))[0]
    words, running, total = _counted(flags)
    count = int(total.item())
    return _picked(words, running, None, count) if count else input.new_zeros((0,), dtype=int64)


def first_positions(input: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the first ``size`` of :func:`nonzero_positions`, zero where there are fewer, and how many there are.

    Nothing waits for the data.
    """
    flags = _flags(input)
    if flags.numel() == 0:
        return input.new_zeros((size,), dtype=int64), input.new_zeros((), dtype=int64)
    if has_algorithm(flags, "nonzero"):
        (places,) = host_call("nonzero", (flags,), None, (int64,))
        total, missing = places.new_full((), places.numel()), size - places.numel()
        return (cat([places, places.new_zeros((missing,))]) if missing > 0 else places[:size]), total
    words, running, total = _counted(flags)
    count = min(size, flags.numel())
    if count == 0:
        return input.new_zeros((size,), dtype=int64), total
    places = _picked(words, running, None, count)
    places = where(arange(count, device=input.device) < total, places, 0)
    return (cat([places, places.new_zeros((size - count,))]) if size > count else places), total


def mask_positions(view: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Return where a mask of some dimensions holds: positions in all of these as one.

    Raises:
        IndexError: its shape is not that of the dimensions from ``dim`` on.
    """
    for axis, size in enumerate(mask._layout.shape):
        if view._layout.shape[dim + axis] != size:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {axis} does not match the shape of the indexed tensor "
                f"{list(view.shape)} at index {dim + axis}"
            )
    return nonzero_positions(mask.to(view.device))


def is_mask(entry: object) -> TypeGuard[Tensor]:
    """Return whether an entry of a subscript is a tensor of truth values, of any shape: bytes were such, too."""
    return isinstance(entry, Tensor) and entry.dtype in (bool_, uint8)


def mask_alone(entries: list[object]) -> Tensor | None:
    """Return the mask that the entries of a subscript begin with, of any shape, if all others are whole dimensions."""
    first, *others = entries or (None,)
    whole = all(isinstance(each, slice) and each == slice(None) for each in others)
    return first if whole and is_mask(first) else None


def filled_where(input: Tensor, entries: list[object], value: object) -> Tensor | None:
    """Return a tensor's elements with a number where a mask of its first dimensions, all of a subscript, holds.

    None if something else is to be written. Nothing has to know where the mask holds.
    """
    mask = mask_alone(entries) if isinstance(value, bool | int | float) else None
    if mask is None or mask.dtype is not bool_ or mask.device != input.device:
        return None
    dims, shape = mask.ndim, input._layout.shape
    fits = dims and mask._layout.shape == shape[:dims] and len(entries) == 1 + len(shape) - dims
    wide = isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    if wide or not fits or without_repeats(input) is not input:
        return None
    spread = mask.reshape((*mask._layout.shape, *(1 for _ in entries[1:])))
    return where(spread, input.new_full((), value), input)


def chooses(input: Tensor, mask: Tensor) -> bool:
    """Return whether :func:`chosen_elements` may take elements by a mask."""
    plain = not (needs_gradient(input) or input.dtype.stored is not input.dtype or has_algorithm(input, "nonzero"))
    return plain and input.numel() > 0 and input._layout.shape == mask._layout.shape and input.device == mask.device


def chosen_elements(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where a mask of the same shape holds, in order, without a gradient.

    Their positions are stored nowhere: who writes an element looks for it.
    """
    flags = _flags(mask)
    words, running, total = _counted(flags)
    count = int(total.item())
    if count == 0:
        return input.new_empty((0,))
    found = _picked(words, running, input.detach().reshape(-1), count)
    if flags.numel() >= _LARGE:
        # The device need not wait until more is recorded: it has nothing to do, as the count has just been read.
        found._storage.value.engine.flush()
    return found


def _flags(input: Tensor) -> Tensor:
    """Return whether elements are not zero, in a line."""
    return (input.detach() if input.dtype is bool_ else input.detach() != 0).reshape(-1)


@remembered
def _counted(flags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return flags as words of 16 bits, the first the lowest; how many hold up to the end of each word; and how many in all.

    Words and what is counted in them come from one reading of the flags and one sum, which floats hold exactly: each flag adds
    its bit, and one above the bits. The rest is a sixteenth as long.
    """
    length = flags.numel()
    if length % _BITS:
        flags = constant_pad_nd(flags, (0, _BITS - length % _BITS))
    kernel = _counting_kernel(flags._layout, flags._storage.value.numel)
    words = record(kernel, (flags,), (), ((flags.numel() // _BITS,),))
    running = (words.to(int32) >> _BITS).cumsum(0, dtype=_kind_of(length))
    return words, running, running[-1].to(int64)


@kernel_cache
def _counting_kernel(flags: Layout, numel: int) -> RowProgram:
    """Return the kernel that makes the words of :func:`_counted` of whole words of flags."""
    count, (stride,) = flags.numel // _BITS, flags.strides
    flag = ir.load(0, flags.offset, (stride * _BITS, stride), bool_)
    own = ir.cast(ir.binary("shift_left", ir.constant(1, int32), ir.cast(ir.coordinate(1), int32)), float32)
    combined = monoid("sum", float32)
    reduction = Reduction(combined, ir.select(flag, own + float(1 << _BITS), 0.0))
    return RowProgram(
        (Operand(bool_, numel),), (Output(float32, count, None),), (), "count", (count,), (_BITS,),
        (reduction,), (Store(0, 0, (1,), ir.reduced(0, float32)),), (),
    )  # fmt: skip


def _kind_of(length: int) -> dtype:
    """Return the type in which positions in a line of so many elements are computed."""
    return int32 if length < 1 << 31 else int64


def _picked(words: Tensor, running: Tensor, values: Tensor | None, count: int) -> Tensor:
    """Return the values, or their positions, where the first ``count`` flags of :func:`_counted` hold."""
    source = None if values is None else values._layout
    numel = 0 if values is None else values._storage.value.numel
    kind = int64 if values is None else values.dtype
    # Elements of a word could not be stored by themselves.
    many = kind.itemsize >= 4 and count * _MANY >= words.numel() * _BITS
    make = _storing_kernel if many and stores_some(words._engine) else _picking_kernel
    kernel = make(words.numel(), running.dtype, source, numel, kind, count)
    return record(kernel, (words, running) if values is None else (words, running, values), (), ((count,),))


@kernel_cache
def _picking_kernel(
    words: int, running: dtype, source: Layout | None, numel: int, kind: dtype, count: int
) -> Pointwise:
    operands = [Operand(float32, words), Operand(running, words)]
    operands += [] if source is None else [Operand(kind, numel)]
    store = Store(0, 0, (1,), _picked_value(words, running, source, kind))
    return Pointwise(tuple(operands), (Output(kind, count, None),), (), "pick", (count,), (store,))


@kernel_cache
def _picked_value(words: int, running: dtype, source: Layout | None, kind: dtype) -> ir.Expression:
    """Return the position of the flag whose number among those that hold is this element's, or the value that lies there.

    A search among the running counts finds its word; in it the halves that the number is beyond are passed, by counts of bits
    in fields of eight, four, two and one (S. E. Anderson, "Bit Twiddling Hacks": the bit with the given rank).
    """
    number = ir.cast(ir.coordinate(0), running)
    group: ir.Expression = ir.constant(0, int32)
    for step in (1 << each for each in reversed(range((words - 1).bit_length()))):
        # Before the last word, whose count is the number of all.
        probe = ir.apply("minimum", group + (step - 1), words - 1)
        passed = ir.binary("less_equal", ir.load_at(1, probe, running), number)
        group = ir.select(passed, group + step, group)
    group = ir.apply("minimum", group, words - 1)
    word, before = _opened(ir.load_at(0, group, float32), ir.load_at(1, group, running))
    counts = [word & ((1 << _BITS) - 1)]
    for width, mask in _FIELDS[:3]:
        counts.append((counts[-1] & mask) + ((counts[-1] >> width) & mask))
    rest, bit = ir.cast(number - before, uint32), ir.constant(0, uint32)
    for width, each in zip((8, 4, 2, 1), reversed(counts), strict=True):
        low = (each >> bit) & ((1 << width) - 1)
        beyond = ir.binary("less_equal", low, rest)
        rest, bit = ir.select(beyond, rest - low, rest), ir.select(beyond, bit + width, bit)
    place = ir.cast(group, running) * _BITS + ir.cast(ir.cast(bit, int32), running)
    return ir.cast(place, kind) if source is None else ir.load_at(2, place * source.strides[0] + source.offset, kind)


def _opened(word: ir.Expression, running: ir.Expression) -> tuple[ir.Expression, ir.Expression]:
    """Return a word of :func:`_counted` as bits, and how many hold before it, of how many do up to its end."""
    bits = ir.cast(ir.cast(word, int32), uint32)
    return bits, running - ir.cast(ir.cast(bits >> _BITS, int32), running.dtype)


@kernel_cache
def _storing_kernel(
    words: int, running: dtype, source: Layout | None, numel: int, kind: dtype, count: int
) -> Pointwise:
    """Return the kernel in which each flag that holds has its position, or the value there, stored at its number among them."""
    word, before = _opened(ir.load(0, 0, (1, 0), float32), ir.load(1, 0, (1, 0), running))
    bit = ir.cast(ir.coordinate(1), uint32)
    flag = ir.binary("equal", ir.binary("shift_right", word, bit) & 1, 1)
    # How many hold before it in its word.
    below = word & (ir.binary("shift_left", ir.constant(1, uint32), bit) - 1)
    for width, mask in _FIELDS:
        below = (below & mask) + ((below >> width) & mask)
    number = before + ir.cast(ir.cast(below, int32), running)
    operands = [Operand(float32, words), Operand(running, words)]
    place = ir.cast(ir.coordinate(0), running) * _BITS + ir.cast(ir.coordinate(1), running)
    value: ir.Expression = ir.cast(place, kind)
    if source is not None:
        operands.append(Operand(kind, numel))
        (stride,) = source.strides
        if source.numel == words * _BITS:
            value = ir.load(2, source.offset, (_BITS * stride, stride), kind)
        else:
            inside = ir.apply("minimum", place, source.numel - 1)
            value = ir.load_at(2, inside * stride + source.offset, kind)
    where = flag & ir.binary("less", number, count)
    store = Store(0, 0, (0, 0), value, number, where)
    return Pointwise(tuple(operands), (Output(kind, count, None),), (), "pick", (words, _BITS), (store,))


#: flags in a word, and the fields of it in which bits are counted: widths, and masks of every other one
_BITS = 16
_FIELDS = ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF))
#: times as many flags as hold for which it takes less to look at all of them than to search each that holds
_MANY = 16
#: elements from which on handing work over pays
_LARGE = 1 << 20


@operation("composite", title="MaskedSelectBackward0")
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where the mask holds, as a 1-d tensor."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if out is not None:
        if out.dtype is not input.dtype:
            raise RuntimeError("masked_select(): self and result must have the same scalar type")
        check_distinct(out)
        check_apart(out, input, mask)
    shape = broadcast_shapes(input._layout.shape, mask._layout.shape)
    return into(input.expand(shape)[mask.expand(shape)] if shape else input.reshape(1)[mask.reshape(1)], out)


@operation("composite", title="MaskedScatterBackward0")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``input`` with source's elements, in order, where the mask holds.

    Raises:
        RuntimeError: ``source`` is of another type, or is known to have too few elements.
    """
    if mask.dtype is not bool_:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {type_title(mask)}")
    if input.dtype is not source.dtype:
        names = (repr(each.dtype).removeprefix("torch.") for each in (input, source))
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {' and '.join(names)}"
        )
    shape = broadcast_shapes(input._layout.shape, mask._layout.shape)
    flat, chosen = source.reshape(-1), mask.expand(shape).reshape(-1)
    # -1 where the mask does not hold yet, and positions counted on where it does not hold: nothing is read there.
    positions = (chosen.to(int64).cumsum(0) * chosen.to(int64)) - 1
    short = RuntimeError("Number of elements of source < number of ones in mask")
    require_few(chosen, flat.numel(), short)
    known = positions_inside("masked_scatter", positions, flat.numel(), lambda _: short, ignored=-1)
    if not source.numel():
        return attach_zeros(row_major(input.expand(shape).clone()), "MaskedScatterBackward0", (source,))
    picked = take_positions(flat, 0, known, "MaskedScatterBackward0").reshape(shape)
    return row_major(where(mask.expand(shape), picked, input.expand(shape)))
