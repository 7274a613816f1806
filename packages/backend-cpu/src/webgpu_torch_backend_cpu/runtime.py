"""Functions that printed kernels call where NumPy has no single spelling of a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from webgpu_torch_core.ir.threefry import INJECTION, PARITY, ROTATIONS, ROUNDS

from . import special
from .choices import MANY
from .choices import clip as clip
from .choices import repeated as repeated
from .choices import select as select
from .halves import absolute_bits as absolute_bits
from .halves import from_bfloat16 as from_bfloat16
from .halves import from_half as from_half
from .halves import negated_bits as negated_bits
from .halves import to_bfloat16 as to_bfloat16
from .halves import to_half as to_half
from .pool import give_registers, take_registers
from .sorting import first_sorted as first_sorted
from .sorting import sorted_order as sorted_order

Array = Any
Value = TypeVar("Value")

#: how many times the elements that are read a copy of what lies between them may be
SPREAD = 4
#: rows up to which, and elements up to which, NumPy finds each row by itself sooner than all are numbered
FEW_ROWS, FEW_ELEMENTS = 256, 1 << 16
#: lines from which on they take a step at a time together
LINES = 64


def rows(source: Array, first: Array, row: tuple[int, ...], count: int, out: Array | None = None) -> Array:
    """Return the rows of a source that start at computed elements, as an array of ``count`` axes of which ``row`` are the rows'.

    The first axis of the source numbers the elements where a row may start. ``out``: where they are written.
    """
    if len(row) == count:
        # A single row, of all axes.
        found = source[np.asarray(first).item()]
        if out is None:
            return found.copy()
        out[...] = found
        return out
    axes = [axis for axis in range(count) if axis not in row]
    first = np.asarray(first)
    starts = first.reshape([first.shape[axis] for axis in axes]) if first.ndim else first.reshape((1,) * len(axes))
    found = target = None
    elements, lies = starts.size * math.prod(source.shape[1:]), source.strides[-1] == source.itemsize
    if elements >= MANY and not (lies and starts.size <= FEW_ROWS and elements <= FEW_ELEMENTS):
        # There are no other axes where it is a single row.
        before = min(sum(axis < min(axes, default=0) for axis in row), len(row) - 1) if lies else len(row)
        order = (*row[:before], *axes, *row[before:])
        target = None if out is None else out.transpose(order)
        found = _taken(source, starts.astype(np.intp, copy=False), before, source.shape[-1] if lies else 1, target)
    if found is None:
        found, order = source[starts], (*axes, *row)
    elif found is target:
        return out
    result = found if order == (*range(count),) else found.transpose([order.index(axis) for axis in range(count)])
    if out is None:
        return result
    out[...] = result
    return out


def _taken(source: Array, starts: Array, before: int, length: int, out: Array | None) -> Array | None:
    """Return the rows that start at some elements, with the axes of these behind so many of the rows' own; None where that is no gain.

    Rows that follow each other, and the elements of rows that lie apart, are numbered: NumPy takes those of an array in order in one
    call, without looking at each axis for each of them.
    """
    if not starts.size:
        return None
    low, stop = int(starts.min()), int(starts.max()) + 1
    pitch = source.strides[-1] // source.itemsize
    if length == 1 and stop <= pitch <= len(source):
        # All of a row, which is in order already.
        low, stop = 0, pitch
    places = starts - low
    if length > 1:
        numbers = places // length
        if (numbers * length != places).any():
            return None
        places = numbers
    view = np.moveaxis(source[low:stop:length], 0, before)
    if not view.flags.c_contiguous and view.size > SPREAD * starts.size * (view.size // view.shape[before]):
        return None
    if out is not None and not out.flags.c_contiguous:
        out = None
    return view.take(places, axis=before, out=out, mode="wrap")


def shared(values: Value) -> Value:
    """Return what all calls of a kernel read and none may write to."""
    if isinstance(values, np.ndarray):
        values.flags.writeable = False
    return values


def integer(kind: Any, value: float) -> Any:
    """Return a number as an integer of a type: what does not fit wraps."""
    try:
        return kind(value)
    except OverflowError:
        return np.uint64(int(value) & 0xFFFFFFFFFFFFFFFF).astype(kind)


def cast(values: Array, kind: type[np.generic], out: Array | None = None) -> Array:
    """Return values in another type, as NumPy converts them, written into ``out``."""
    if out is None:
        return np.asarray(values).astype(kind)
    np.copyto(out, values, casting="unsafe")
    return out


def to_integer(values: Array, kind: Any) -> Array:
    """Return values truncated to integers; what has no integer becomes the smallest, as on x86.

    As there, signed types of up to 32 bits are what is left of a 32-bit integer, the others of one of 64 bits.
    """
    values = np.asarray(values)
    if values.dtype.kind != "f":
        return values.astype(kind)
    target = np.dtype(kind)
    carrier = np.int32 if target.kind == "i" and target.itemsize <= 4 else np.int64
    # Few processors have an instruction for 64 bits in vectors: unsigned types of fewer have a quicker way below.
    if (target.kind == "i" or target.itemsize == 8) and _truncates(values.dtype.type, carrier):
        return values.astype(carrier).astype(kind, copy=False)
    if (
        values.size
        and np.minimum.reduce(values, axis=None) > -(1 << 31)
        and np.maximum.reduce(values, axis=None) < 1 << 31
    ):
        return values.astype(np.int32 if target.itemsize <= 4 else np.int64).astype(kind, copy=False)
    wide = values.astype(np.float64)
    bound = 2.0**31 if carrier is np.int32 else 2.0**63
    inside = (wide > -bound - 1) & (wide < bound) if carrier is np.int32 else (wide >= -bound) & (wide < bound)
    return np.where(inside, wide, -bound).astype(carrier).astype(kind)


@lru_cache
def _truncates(kind: type[np.floating], carrier: type[np.signedinteger]) -> bool:
    """Return whether the processor's conversion gives the smallest integer for what has none, also in vectors."""
    least = np.iinfo(carrier).min
    with np.errstate(all="ignore"):
        ends = np.array((np.nan, np.inf, -np.inf, -float(least), 4.0 * least), kind)
        return bool((np.repeat(ends, 67).astype(carrier) == least).all())


def is_integer(a: Array) -> bool:
    """Return whether an operand has an integer type."""
    return np.asarray(a).dtype.kind in "iu"


def floor_divide(a: Array, b: Array) -> Array:
    """Return the quotient rounded down."""
    if is_integer(a):
        return np.floor_divide(a, b)
    found = _divided(a, b)
    if found is not None:
        whole, rest = found
        whole -= (rest != 0) & ((rest < 0) != np.less(b, 0))
        # A quotient of zero has the sign that the division gives it.
        return np.copysign(whole.astype(np.float32), np.divide(a, b))
    zero = np.equal(b, 0)
    return np.where(zero, np.divide(a, b), np.floor_divide(a, b))


def _divided(a: Array, b: Array) -> tuple[Array, Array] | None:
    """Return whole quotients of float32 numbers, rounded towards zero, and what is left, both as doubles; None where they are too many.

    A quotient below 2^22 in double precision is not rounded to the next whole number, and its product with the divisor is exact: that
    takes vector instructions where NumPy's functions take one element after another.
    """
    if np.result_type(a, b) != np.float32 or np.size(a) < MANY:
        return None
    wide, by = np.asarray(a, np.float64), np.asarray(b, np.float64)
    whole = np.trunc(wide / by)
    rest = wide - whole * by
    # What is not finite is NaN here, and infinite or NaN there.
    low, high = (each.reduce(whole, axis=None) for each in (np.minimum, np.maximum))
    if not (-(1 << 22) < low and high < 1 << 22) or np.isnan(np.add.reduce(rest, axis=None)):
        return None
    return whole, rest


def _rest(a: Array, b: Array) -> Array:
    """Return the remainder of floats with the dividend's sign."""
    found = _divided(a, b)
    return np.fmod(a, b) if found is None else np.copysign(found[1].astype(np.float32), a)


def truncate_divide(a: Array, b: Array) -> Array:
    """Return the quotient rounded towards zero."""
    if not is_integer(a):
        return np.trunc(np.divide(a, b))
    quotient = np.floor_divide(a, b)
    inexact = np.not_equal(quotient * b, a)
    return quotient + (inexact & (np.less(a, 0) != np.less(b, 0)))


def remainder(a: Array, b: Array) -> Array:
    """Return the remainder with the divisor's sign; of floats, as PyTorch, a zero keeps the dividend's."""
    if is_integer(a):
        if np.ndim(b) or not b:
            return np.remainder(a, b)
        # NumPy has vector instructions for the quotient by one number only.
        whole = np.floor_divide(a, b)
        return np.subtract(a, np.multiply(whole, b))
    rest = _rest(a, b)
    other = np.not_equal(np.less(rest, 0), np.less(b, 0))
    # Where nothing is left there is nothing to add, and zero keeps its sign.
    return select(np.logical_and(other, rest), rest + b, rest, False)


def fmod(a: Array, b: Array) -> Array:
    """Return the remainder with the dividend's sign."""
    return np.fmod(a, b) if is_integer(a) else _rest(a, b)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Return ``a * b + c``, rounded once; float32's products are exact in double precision."""
    kind = np.result_type(a, b, c)
    if kind == np.float32:
        return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)
    return fused_doubles(a, b, c) if kind == np.float64 else a * b + c


def fused_doubles(a: Array | float, b: Array | float, c: Array | float) -> Array:
    """Return ``a * b + c`` of doubles, rounded once, as :func:`webgpu_torch_core.ir.scalar_math.fused_multiply_add`."""
    product = np.multiply(a, b)
    plain = product + c
    if isinstance(c, float) and c == 0.0:
        return plain
    with np.errstate(all="ignore"):
        high_a, low_a = _halves(a)
        high_b, low_b = _halves(b)
        error = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
        low, low_error = _two_sum(c, error)
        high, high_error = _two_sum(product, low)
        odd, remainder = _two_sum(low_error, high_error)
        even = (odd.view(np.int64) & 1) == 0
        toward = np.where(remainder > 0, np.inf, -np.inf)
        found = high + np.where((remainder != 0) & even, np.nextafter(odd, toward), odd)
        # Products too small to split are nothing beside the addend, and what overflows on the way is not split either.
        return np.where((np.abs(product) > 1e-200) & np.isfinite(found), found, plain)


def _halves(value: Array | float) -> tuple[Array, Array]:
    scaled = np.multiply(value, 134217729.0)
    high = scaled - (scaled - value)
    return high, value - high


def _two_sum(a: Array | float, b: Array | float) -> tuple[Array, Array]:
    total = np.add(a, b)
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def sign(a: Array) -> Array:
    """Return -1, 0 or 1; NaN gives 0."""
    a = np.asarray(a)
    return (np.greater(a, 0).view(np.int8) - np.less(a, 0).view(np.int8)).astype(a.dtype)


def power(a: Array, b: Array) -> Array:
    """Return ``a ** b``; negative powers of integers truncate."""
    if not is_integer(a):
        return np.power(a, b)
    if not np.ndim(b) and 0 < b < 1 << 6:
        return _raised(np.asarray(a), int(b))
    a, b = np.broadcast_arrays(a, b)
    result = np.power(a, np.maximum(b, 0))
    odd = np.where(np.bitwise_and(b, 1) == 1, -1, 1)
    inverse = np.where(a == 1, 1, np.where(a == -1, odd, 0)).astype(result.dtype)
    return np.where(b < 0, inverse, result)


def _raised(a: Array, exponent: int) -> Array:
    """Return a positive power of integers by squaring: each product is one pass over vectors."""
    found = None
    while True:
        if exponent & 1:
            found = a if found is None else found * a
        exponent >>= 1
        if not exponent:
            return found
        a = a * a


def shift_left(a: Array, b: Array) -> Array:
    """Return ``a << b``; counts outside of the width give 0."""
    a = np.asarray(a)
    width = a.dtype.itemsize * 8
    inside = (np.asarray(b) >= 0) & (np.asarray(b) < width)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(a.dtype)), np.zeros((), a.dtype))


def shift_right(a: Array, b: Array) -> Array:
    """Return ``a >> b``; counts outside of the width give the sign's fill."""
    a = np.asarray(a)
    width = a.dtype.itemsize * 8
    inside = (np.asarray(b) >= 0) & (np.asarray(b) < width)
    result = np.right_shift(a, np.where(inside, b, width - 1).astype(a.dtype))
    return np.where(inside, result, np.zeros((), a.dtype)) if a.dtype.kind == "u" else result


def sign_bit(a: Array) -> Array:
    """Return whether the sign bit is set."""
    return np.less(a, 0) if is_integer(a) else np.signbit(a)


def hypot(a: Array, b: Array) -> Array:
    """Return ``sqrt(a * a + b * b)``; of float32 numbers in double precision, where no square leaves the range."""
    if np.result_type(a, b) != np.float32:
        return np.hypot(a, b)
    squares = np.square(a, dtype=np.float64) + np.square(b, dtype=np.float64)
    found = np.sqrt(squares).astype(np.float32)
    if np.isnan(found).any():
        # Beside an infinite number what is no number does not matter.
        return np.where(np.isinf(a) | np.isinf(b), np.float32(np.inf), found)
    return found


def copysign(a: Array, b: Array) -> Array:
    """Return the magnitude of a with the sign of b."""
    return np.copysign(a, b)


def threefry(word: Array, *words: Array) -> Array:
    """Return one word of Threefry4x32-13 (Salmon et al., SC'11) for four arrays of counters and four of keys."""
    counter, key = ([np.asarray(each, np.uint32) for each in part] for part in (words[:4], words[4:]))
    key.append(key[0] ^ key[1] ^ key[2] ^ key[3] ^ np.uint32(PARITY))
    with np.errstate(over="ignore"):
        state = [a + b for a, b in zip(counter, key, strict=False)]
        for number in range(ROUNDS):
            first, second = ROTATIONS[number % len(ROTATIONS)]
            a, c = state[0] + state[1], state[2] + state[3]
            state = [a, _rotated(state[3], second) ^ c, c, _rotated(state[1], first) ^ a]
            if (number + 1) % INJECTION == 0:
                times = (number + 1) // INJECTION
                state = [each + key[(times + place) % 5] for place, each in enumerate(state)]
                state[3] = state[3] + np.uint32(times)
    # After an odd number of rounds two words have changed places.
    return np.asarray(np.choose(word, [state[0], state[3], state[2], state[1]]), np.uint32)


def _rotated(words: Array, bits: int) -> Array:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def spread(values: Array, shape: tuple[int, ...]) -> Array:
    """Return values broadcast to the full block, for reductions of expressions that do not vary along an axis."""
    return values if np.shape(values) == shape else np.broadcast_to(values, shape)


def ordered(values: Array, shape: tuple[int, ...], order: tuple[int, ...]) -> Array:
    """Return all values of a block as one line, its dimensions taken in an order; ``shape`` gives their sizes in it."""
    values = np.asarray(values)
    if values.ndim:
        values = values.transpose(order)
    return spread(values, shape).reshape(-1)


class Combination(NamedTuple):
    """A monoid as functions over arrays: what kernels use where NumPy has no function that combines so."""

    types: tuple[Any, ...]
    identity: tuple[Any, ...]
    lift: Callable[..., Any]
    combine: Callable[..., Any]
    results: Callable[..., Any]

    def states(self, values: Array, positions: Array) -> list[Array]:
        """Return the states of elements."""
        return self.typed(self.lift(np.asarray(values, self.types[0]), positions), np.shape(values))

    def typed(self, state: Any, shape: tuple[int, ...]) -> list[Array]:
        """Return the arrays of a state in its types and of one shape."""
        return [np.broadcast_to(np.asarray(each, kind), shape) for each, kind in zip(state, self.types, strict=True)]

    def combined(self, earlier: list[Array], later: list[Array]) -> list[Array]:
        """Return two arrays of states combined."""
        return self.typed(self.combine(*earlier, *later), np.shape(earlier[0]))


def reduce_with(how: Combination, values: Array, count: int) -> Array:
    """Return the reduction of the last ``count`` axes, neighbours first, with these axes kept."""
    kept = values.shape[: values.ndim - count]
    rows = values.reshape((*kept, -1))
    state = how.states(rows, np.arange(rows.shape[-1]))
    if rows.shape[-1] == 0:
        state = how.typed(how.identity, (*kept, 1))
    while state[0].shape[-1] > 1:
        even = state[0].shape[-1] // 2 * 2
        found = how.combined([each[..., 0:even:2] for each in state], [each[..., 1:even:2] for each in state])
        state = [np.concatenate((new, old[..., even:]), -1) for new, old in zip(found, state, strict=True)]
    return np.asarray(how.results(*state)[0]).reshape(kept + (1,) * count)


def scan_with(how: Combination, values: Array, reverse: bool) -> tuple[Array, ...]:
    """Return the results of running along the last axis, by doubling (Hillis and Steele, 1986)."""
    length = values.shape[-1]
    places = np.arange(length - 1, -1, -1) if reverse else np.arange(length)
    state, step = how.states(values, places), 1
    while step < length:
        found = how.combined([each[..., :-step] for each in state], [each[..., step:] for each in state])
        state = [np.concatenate((old[..., :step], new), -1) for new, old in zip(found, state, strict=True)]
        step *= 2
    return how.results(*state)


def product(few: Array, columns: Array, out: Array | None = None) -> Array:
    """Return the product of matrices of few rows and others, written into ``out``.

    BLAS takes up to three times as long where columns lie in one piece each as for these, as rows, times the few rows, as columns.
    """
    if columns.strides[-2] != columns.itemsize or few.strides[-1] != few.itemsize or columns.dtype.kind != "f":
        return np.matmul(few, columns, out=out)
    found = np.matmul(columns.swapaxes(-1, -2), few.swapaxes(-1, -2)).swapaxes(-1, -2)
    if out is None:
        return np.ascontiguousarray(found)
    out[...] = found
    return out


def accumulated(how: np.ufunc, values: Array, kind: type[np.generic], out: Array | None = None) -> Array:
    """Return what the elements of a type up to each along the last axis come to, written into ``out``."""
    if not _side_by_side(values):
        if out is None or out.dtype == kind:
            return how.accumulate(values.astype(kind, copy=False), axis=-1, dtype=kind, out=out)
        memory = take_registers(values.size * np.dtype(kind).itemsize)
        found = np.ndarray(values.shape, kind, memory)
        np.copyto(found, values)
        out[...] = how.accumulate(found, axis=-1, out=found)
        give_registers(memory)
        return out
    # NumPy goes along one line after another, whose elements lie far apart: all lines take a step at once.
    columns = np.empty((values.shape[-1], *values.shape[:-1]), kind)
    columns[...] = np.moveaxis(values, -1, 0)
    rows = list(columns)
    for before, here in pairwise(rows):
        how(before, here, out=here)
    found = np.moveaxis(columns, 0, -1)
    if out is None:
        return found
    out[...] = found
    return out


def _side_by_side(values: Array) -> bool:
    """Return whether neighbours in memory belong to different lines along the last axis, of which there are many."""
    lines = values.shape[:-1]
    apart = [abs(stride) for stride, size in zip(values.strides, lines, strict=False) if size > 1]
    return math.prod(lines) >= LINES and min(apart, default=0) < abs(values.strides[-1])


def latest(flags: Array) -> Array:
    """Return for each place along the last axis the last one up to it that has a flag; the first ones have."""
    length = flags.shape[-1]
    kind = np.int32 if length < 1 << 31 else np.int64
    if _side_by_side(flags):
        return accumulated(np.maximum, flags * np.arange(length, dtype=kind), kind)
    places = np.flatnonzero(flags)
    counts = np.diff(places, append=flags.size)
    return np.repeat((places % length).astype(kind), counts).reshape(flags.shape)


def scatter_with(how: Combination, target: Array, index: Array, values: Array) -> None:
    """Combine values into a target in their order: all first values of an element, then all second ones, …"""
    order = sorted_order(index, False)
    index, state = index[order], how.states(values, np.zeros(len(index), np.int64))[0][order]
    starts = np.flatnonzero(np.concatenate((np.ones(1, bool), index[1:] != index[:-1])))
    lengths = np.diff(np.append(starts, len(index)))
    for turn in range(int(lengths.max(initial=0))):
        at = starts[lengths > turn] + turn
        target[index[at]] = how.combined([target[index[at]]], [state[at]])[0]


erf, erfc, erfinv, lgamma, digamma = special.erf, special.erfc, special.erfinv, special.lgamma, special.digamma
log1p, expm1 = special.log1p, special.expm1
