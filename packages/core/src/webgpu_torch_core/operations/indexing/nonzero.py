"""Where elements are not zero: flat positions in order, found by a running count, and positions in each dimension."""

from __future__ import annotations

from ...ir.dtypes import bool_, int32, int64
from ...ir.layouts import contiguous_strides
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..creation.factories import arange
from ..elementwise.overloads import where
from ..movement.joining import cat

#: most and fewest elements that are counted as a line of many
_LINE, _SHORT = 4096, 256


def coordinates(positions: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Return flat positions in a shape as one tensor per dimension."""
    found, rest = [], positions
    for dim, stride in enumerate(contiguous_strides(shape)):
        if shape[dim] == 1:
            found.append(rest.new_zeros(rest.shape))
            continue
        found.append(rest.floor_divide(stride) if stride > 1 else rest)
        rest = rest.remainder(stride) if stride > 1 else rest
    return found


def nonzero_positions(input: Tensor, size: int | None = None) -> tuple[Tensor, Tensor]:
    """Return flat positions of the elements that are not zero, in order, and how many there are.

    A running count says where each one goes. ``size`` asks for so many: then nothing waits for the data, and what there is not
    is zero.
    """

    flags = (input.detach() if input.dtype is bool_ else input.detach() != 0).reshape(-1)
    if flags.numel() == 0:
        return input.new_zeros((size or 0,), dtype=int64), input.new_zeros((), dtype=int64)
    inside, before, total = _running_count(flags)
    length = flags.numel()
    count = int(total.item()) if size is None else min(size, length)
    # Not before the count is read: so it is part of the kernel that writes.
    places = _places(flags, inside, before, total)[:count].to(int64)
    if size is None:
        return places, total
    places = where(arange(count, device=input.device) < total, places, 0)
    return (cat([places, places.new_zeros((size - count,))]) if size > count else places), total


@remembered
def _places(flags: Tensor, inside: Tensor, before: Tensor, total: Tensor) -> Tensor:
    """Return the positions of the elements that are not zero, in order, and behind them those of the others."""
    running = (inside + before).reshape(-1)
    numbers = arange(flags.numel(), dtype=running.dtype, device=flags.device)
    # The elements that are zero go behind the others: every place is written once, and neighbours write side by side.
    slots = where(flags, running - 1, numbers - running + total.to(running.dtype))
    return numbers.new_zeros((flags.numel(),)).scatter(0, slots, numbers)


@remembered
def _running_count(flags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many flags hold in a line up to each place [lines, length], in the lines before [lines, 1], and in all."""
    length, kind = flags.numel(), int32 if flags.numel() < 1 << 31 else int64
    line = _LINE
    while length % line:
        line //= 2
    inside = flags.reshape(-1, line if line >= _SHORT else length).cumsum(1, dtype=kind)
    lines = inside[:, -1]
    totals = lines.cumsum(0, dtype=kind)
    return inside, (totals - lines).unsqueeze(1), totals[-1].to(int64)
