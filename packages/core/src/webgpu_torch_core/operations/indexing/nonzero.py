"""What depends on which elements are not zero: their positions, and reading and writing where a mask holds."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import bool_, int32, int64
from ...ir.layouts import broadcast_shapes, contiguous_strides, layout
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import attach_zeros, check_apart, needs_gradient, no_view, row_major
from ..creation.factories import arange
from ..elementwise.overloads import where
from ..host_algorithms import has_algorithm, host_call
from ..in_place.writing import check_distinct
from ..movement.joining import cat, stack
from ..movement.splitting import unbind
from ..outputs import into
from .gathering import scatter_elements, take_positions
from .index_checks import positions_inside


@operation("indexed")
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero, as rows (or as one tensor per dimension).

    Raises:
        RuntimeError: ``out`` is not of int64.
    """
    if out is not None and out.dtype is not int64:
        raise RuntimeError(f"nonzero: Expected out tensor to have scalar type Long but got {out.dtype!r}")
    positions, _ = nonzero_positions(input)
    rows = coordinates(positions, input._layout.shape)
    if as_tuple:
        return unbind(stack(rows, 0) if rows else positions.unsqueeze(0), 0)
    if not rows:
        count = int(positions.numel())
        return into(no_view(input.new_zeros((count, 0), dtype=int64).as_strided((count, 0), (1, count))), out)
    # Column-major, as PyTorch's.
    found, count = stack(rows, 0), int(positions.numel())
    place = layout((count, len(rows)), (1, count))
    return into(Tensor._from_storage(found._storage, place, int64, found.device), out)


def coordinates(positions: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Return flat positions in a shape as one tensor per dimension."""
    found, rest = [], positions
    for dim, stride in enumerate(contiguous_strides(shape)):
        if shape[dim] == 1:
            found.append(rest.new_zeros(rest.shape))
            continue
        if stride == 1:
            found.append(rest)
            continue
        found.append(rest.floor_divide(stride))
        rest = rest - found[-1] * stride
    return found


def nonzero_positions(input: Tensor, size: int | None = None) -> tuple[Tensor, Tensor]:
    """Return flat positions of the elements that are not zero, in order, and how many there are.

    A running count says where each one goes. ``size`` asks for so many: then nothing waits for the data, and what there is not
    is zero.
    """

    flags = (input.detach() if input.dtype is bool_ else input.detach() != 0).reshape(-1)
    if flags.numel() == 0:
        return input.new_zeros((size or 0,), dtype=int64), input.new_zeros((), dtype=int64)
    if has_algorithm(flags, "nonzero"):
        (places,) = host_call("nonzero", (flags,), None, (int64,))
        total = places.new_full((), places.numel())
        missing = 0 if size is None else size - places.numel()
        return (cat([places, places.new_zeros((missing,))]) if missing > 0 else places[:size]), total
    inside, totals, total = _running_count(flags)
    length = flags.numel()
    count = int(total.item()) if size is None else min(size, length)
    # Not before the count is read: so it is part of the kernel that writes.
    places = _places(flags.new_empty((length,), dtype=inside.dtype), flags, inside, totals, total)[:count].to(int64)
    if size is None:
        return places, total
    places = where(arange(count, device=input.device) < total, places, 0)
    return (cat([places, places.new_zeros((size - count,))]) if size > count else places), total


def chooses(input: Tensor, mask: Tensor) -> bool:
    """Return whether :func:`chosen_elements` may take elements by a mask."""
    plain = not (needs_gradient(input) or input.dtype.is_complex)
    return plain and input.numel() > 0 and input._layout.shape == mask._layout.shape and input.device == mask.device


def chosen_elements(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where a mask of the same shape holds, in order, without a gradient.

    Their positions are stored nowhere: each element goes to its place at once.
    """
    length = input.numel()
    flags = (mask.detach() if mask.dtype is bool_ else mask.detach() != 0).reshape(-1)
    inside, totals, total = _running_count(flags)
    count = int(total.item())
    values = input.detach().reshape(-1)
    found = _gathered(values.new_empty((length,)), values, flags, inside, totals, total)
    if length >= _LARGE:
        # The device need not wait until more is recorded: it has nothing to do, as the count has just been read.
        found._storage.value.engine.flush()
    return found if count == length else found[:count].clone()


@remembered
def _places(room: Tensor, flags: Tensor, inside: Tensor, totals: Tensor, total: Tensor) -> Tensor:
    """Return the positions of the elements that are not zero, in order, and behind them anything; ``room`` is overwritten."""
    numbers = arange(flags.numel(), dtype=inside.dtype, device=flags.device)
    return _compacted(room, flags, inside, totals, total, numbers)


@remembered
def _gathered(
    room: Tensor, values: Tensor, flags: Tensor, inside: Tensor, totals: Tensor, total: Tensor
) -> Tensor:  # fmt: skip
    """Return the values whose flags hold, in order, and behind them anything; ``room`` is overwritten."""
    return _compacted(room, flags, inside, totals, total, values)


def _compacted(
    room: Tensor, flags: Tensor, inside: Tensor, totals: Tensor, total: Tensor, values: Tensor
) -> Tensor:  # fmt: skip
    """Write each value whose flag holds to the place that running counts say.

    The values of the others go anywhere behind them, to few places, which are not worth any memory's time.
    """
    kind, shape = inside.dtype, inside._layout.shape
    running = inside + (totals - inside[:, -1]).unsqueeze(1)
    others = arange(flags.numel(), dtype=kind, device=flags.device).reshape(shape) - running
    slots = where(flags.reshape(shape), running - 1, (others & (_SPREAD - 1)) + total.to(kind))
    lines = values.reshape(shape)
    index, value = (
        ir.load(number, each._layout.offset, each._layout.strides, each.dtype)
        for number, each in enumerate((slots, lines), 1)
    )
    return scatter_elements(room, (), shape, index, value, None, (slots, lines), "compact")


@remembered
def _running_count(flags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many flags hold in a line up to each place [lines, length], in the lines up to each [lines], and in all."""
    length, kind = flags.numel(), int32 if flags.numel() < 1 << 31 else int64
    line = _LINE
    while length % line:
        line //= 2
    inside = flags.reshape(-1, line if line >= _SHORT else length).cumsum(1, dtype=kind)
    lines = inside[:, -1]
    totals = lines.cumsum(0, dtype=kind)
    return inside, totals, totals[-1].to(int64)


#: most and fewest elements that are counted as a line of many
_LINE, _SHORT = 4096, 256
#: elements from which on handing work over pays; among how many places (a power of two) what nobody wants is spread
_LARGE, _SPREAD = 1 << 20, 1 << 16


@operation("composite", title="MaskedSelectBackward0")
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where the mask holds, as a 1-d tensor."""
    if mask.dtype is not bool_:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, but got {mask.dtype!r}")
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
    known = positions_inside("masked_scatter", positions, flat.numel(), lambda _: short, ignored=-1)
    if not source.numel():
        return attach_zeros(row_major(input.expand(shape).clone()), "MaskedScatterBackward0", (source,))
    picked = take_positions(flat, 0, known, "MaskedScatterBackward0").reshape(shape)
    return row_major(where(mask.expand(shape), picked, input.expand(shape)))
