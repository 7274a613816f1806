"""Discrete Fourier transforms of lengths without large prime factors: passes of small transforms, each in the registers of a thread.

A length n = r1 r2 … is split as Cooley and Tukey do ("An algorithm for the machine calculation of complex Fourier series", 1965). A pass
reads r numbers for each thread, transforms them, turns them by twiddle factors, and writes them where the next pass finds
them side by side (T. G. Stockham, "High-speed convolution and correlation", 1966): the last leaves the results in order. The first pass
would scatter what it writes: it leaves all where it was, and the second gathers.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from ...ir import expression as ir
from ...ir.dtypes import dtype
from ...ir.expression import Expression
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import Layout, contiguous_layout, number_of_elements, part_layout
from ...record.devices import device, stores_some
from ...tensors.tensor import Tensor
from ..common import kernel_cache, record
from ..complex.interleaving import complex_alias, real_alias
from ..movement.joining import element_index
from .fourier_constants import circle, constant

#: the longest transform in registers
LARGEST = 16
#: the parts of a complex number; None: zero
_Part: TypeAlias = Expression | None
_Number: TypeAlias = tuple[_Part, _Part]
#: what is read: complex numbers, real ones, or the first half of a Hermitian sequence
Source: TypeAlias = Literal["complex", "real", "half"]
#: what is wanted: all numbers, their real parts, or the first half of them
Result: TypeAlias = Literal["complex", "real", "half"]


@lru_cache(maxsize=1024)
def radices(count: int) -> tuple[int, ...] | None:
    """Return the lengths of the transforms that one of ``count`` numbers is made of, as few as there may be; None if a prime is too large."""
    if count <= LARGEST:
        return (count,)
    found = None
    for radix in range(LARGEST, 1, -1):
        rest = radices(count // radix) if count % radix == 0 else None
        if rest is None:
            continue
        candidate = tuple(sorted((radix, *rest), reverse=True))
        if found is None or (len(candidate), candidate) < (len(found), found):
            found = candidate
    return found


class Pass(NamedTuple):
    """One pass over a dimension of ``length`` numbers: transforms of ``radix``, after those of ``before`` numbers.

    ``first``: the radix of the first pass.
    """

    length: int
    radix: int
    before: int
    first: int

    @property
    def after(self) -> int:
        """How many transforms there are for each of those before."""
        return self.length // (self.radix * self.before)

    def reads(self) -> tuple[int, int, int]:
        """Return how far apart numbers lie that are read: by one thread, and by those after and those before."""
        if self.before == self.first:
            # The pass before wrote them so.
            return self.after, 1, self.length // self.before
        return self.before * self.after, self.before, 1

    def writes(self) -> tuple[int, int, int]:
        """Return how far apart numbers lie that are written: neighbours, by threads that are neighbours."""
        if self.before == 1 and self.after > 1:
            return self.after, 1, 1
        return self.before, self.radix * self.before, 1


def passes(count: int) -> list[Pass]:
    """Return the passes over a length that :func:`radices` can split."""
    each = radices(count)
    if each is None:
        return []
    before = accumulate(each, operator.mul, initial=1)
    return [Pass(count, radix, done, each[0]) for radix, done in zip(each, before, strict=False)]


def tables(place: device, count: int, sign: int, wide: bool) -> tuple[Tensor, ...]:
    """Return the twiddle factors, [radix, after, 2], of the passes over a length but the last; ``wide``: in float64."""
    return tuple([
        constant("turns", place, each.after, each.radix, sign, wide=wide) for each in passes(count) if each.after > 1
    ])  # fmt: skip


def transformed(
    input: Tensor,
    turns: Sequence[Tensor],
    axis: int,
    count: int,
    sign: int,
    factor: float,
    source: Source,
    result: Result,
) -> Tensor:
    """Return the transform with ``exp(sign 2 pi i j k / count)`` along a dimension, times a factor, in row-major order.

    Args:
        turns: the :func:`tables` of the length.
        source: what the input is; of ``"half"`` a dimension has ``count // 2 + 1`` numbers, of which the others are the conjugates.
        result: what is wanted of it.
    """
    shape = list(input._layout.shape)
    shape[axis] = count
    kind = input.dtype.to_real()
    every = passes(count)
    some = stores_some(input._engine)
    for number, each in enumerate(every):
        last = number == len(every) - 1
        kernel = _pass_kernel(
            each, input._layout, input._storage.value.numel, kind, tuple(shape), axis, sign, factor if last else 1.0,
            source if number == 0 else "complex", result if last and (result == "real" or some) else "complex",
        )  # fmt: skip
        given = input if source == "real" and number == 0 else real_alias(input)
        made = record(kernel, (given, *turns[number : number + (not last)]), (), ((kernel.outputs[0].numel,),))
        if last and result == "real":
            return Tensor._from_storage(made._storage, contiguous_layout(tuple(shape)), kind, input.device)
        if last and result == "half" and some:
            shape[axis] = count // 2 + 1
        pairs = Tensor._from_storage(made._storage, contiguous_layout((*shape, 2)), kind, input.device)
        input = complex_alias(pairs)
    return input.narrow(axis, 0, count // 2 + 1) if result == "half" else input


@kernel_cache
def _pass_kernel(
    step: Pass, place: Layout, numel: int, kind: dtype, shape: tuple[int, ...], axis: int, sign: int, factor: float,
    source: Source, result: Result,
) -> Pointwise:  # fmt: skip
    """Return the kernel of a pass: a thread for each transform, by its number among those after and those before."""
    radix, before, after = step.radix, step.before, step.after
    domain = (*shape[:axis], after, before, *shape[axis + 1 :])
    operands = [Operand(kind, numel)]
    numbers = _transform(_read(step, place, kind, axis, source), sign)
    if after > 1:
        operands.append(Operand(kind, 2 * radix * after))
        numbers = [_turned(each, at, axis, after, len(domain), kind) for at, each in enumerate(numbers)]
    if factor != 1.0:
        numbers = [_scaled(each, factor) for each in numbers]
    width = 1 if result == "real" else 2
    kept = step.length // 2 + 1 if result == "half" else step.length
    shape = (*shape[:axis], kept, *shape[axis + 1 :])
    target = contiguous_layout(shape).strides
    apart, *beside = step.writes()
    strides = tuple([width * each for each in _spread(target, axis, *beside)])
    stores: list[Store] = []
    for number, parts in enumerate(numbers):
        # Of the last results, which lie as far apart as there are before, the first may be kept only.
        first = apart * number
        where = ir.binary("less", ir.coordinate(axis + 1), kept - first) if first + before > kept else None
        for part, each in enumerate(parts[:width] if first < kept else ()):
            stores.append(Store(0, width * target[axis] * first + part, strides, _value(each, kind), None, where))
    output = Output(kind, width * number_of_elements(shape), None)
    return Pointwise(tuple(operands), (output,), (), "fourier", domain, tuple(stores))


def _spread(strides: Sequence[int], axis: int, after: int, before: int) -> tuple[int, ...]:
    """Return strides over the domain of a pass, given how many places one of those after and of those before are apart."""
    own = strides[axis]
    return (*strides[:axis], own * after, own * before, *strides[axis + 1 :])


def _read(step: Pass, place: Layout, kind: dtype, axis: int, source: Source) -> list[_Number]:
    """Return the numbers that a thread transforms."""
    apart, *beside = step.reads()
    if source == "half":
        return [_mirrored(step, place, kind, axis, apart * number) for number in range(step.radix)]
    parts = [place] if source == "real" else [part_layout(place, 0), part_layout(place, 1)]
    found: list[_Number] = []
    for number in range(step.radix):
        read: list[_Part] = [
            ir.load(0, each.offset + each.strides[axis] * apart * number, _spread(each.strides, axis, *beside), kind)
            for each in parts
        ]  # fmt: skip
        found.append((read[0], read[1] if len(read) > 1 else None))
    return found


def _mirrored(step: Pass, place: Layout, kind: dtype, axis: int, first: int) -> _Number:
    """Return a number of a Hermitian sequence of which the first half is there, in the first of its passes."""
    position = ir.coordinate(axis) + first
    within = ir.binary("less_equal", position * 2, step.length)
    near = ir.apply("minimum", position, step.length - position)
    coordinates = [ir.coordinate(each + (each > axis)) for each in range(len(place.shape))]
    coordinates[axis] = near
    real, imag = (ir.load_at(0, element_index(part_layout(place, part), coordinates), kind) for part in (0, 1))
    return real, ir.select(within, imag, -imag)


def _turned(number: _Number, at: int, axis: int, after: int, depth: int, kind: dtype) -> _Number:
    """Return the result of a number times its twiddle factor, which the second operand has."""
    if at == 0:
        return number
    strides = [0] * depth
    strides[axis] = 2
    cosine, sine = (ir.load(1, 2 * at * after + part, tuple(strides), kind) for part in (0, 1))
    return _multiplied(number, cosine, sine)


def _value(part: _Part, kind: dtype) -> Expression:
    return ir.constant(0.0, kind) if part is None else part


# Arithmetic of complex numbers whose parts may be zero


def _add(left: _Part, right: _Part) -> _Part:
    if left is None or right is None:
        return right if left is None else left
    return left + right


def _subtract(left: _Part, right: _Part) -> _Part:
    if right is None:
        return left
    return -right if left is None else left - right


def _times(part: _Part, factor: Expression | float) -> _Part:
    return None if part is None else part * factor


def _sum(left: _Number, right: _Number) -> _Number:
    return _add(left[0], right[0]), _add(left[1], right[1])


def _difference(left: _Number, right: _Number) -> _Number:
    return _subtract(left[0], right[0]), _subtract(left[1], right[1])


def _scaled(number: _Number, factor: float) -> _Number:
    return _times(number[0], factor), _times(number[1], factor)


def _multiplied(number: _Number, cosine: Expression | float, sine: Expression | float) -> _Number:
    real, imag = number
    return (
        _subtract(_times(real, cosine), _times(imag, sine)),
        _add(_times(real, sine), _times(imag, cosine)),
    )


def _times_i(number: _Number, sign: int) -> _Number:
    """Return a number times i, or times -i."""
    real, imag = number
    turned = imag if sign < 0 or imag is None else -imag
    return turned, real if sign > 0 or real is None else -real


def _transform(numbers: list[_Number], sign: int) -> list[_Number]:
    """Return the transform of a few numbers."""
    count = len(numbers)
    if count == 1:
        return numbers
    if count == 2:
        return [_sum(*numbers), _difference(*numbers)]
    if count == 4:
        even, odd = _transform(numbers[::2], sign), _transform(numbers[1::2], sign)
        turned = _times_i(odd[1], sign)
        return [
            _sum(even[0], odd[0]),
            _sum(even[1], turned),
            _difference(even[0], odd[0]),
            _difference(even[1], turned),
        ]
    first = 4 if count % 4 == 0 else next(each for each in range(2, count + 1) if count % each == 0)
    if first == count:
        return _prime(numbers, sign)
    second = count // first
    cosines, sines = circle(count, sign)
    columns = [_transform(numbers[each::second], sign) for each in range(second)]
    found: list[_Number] = [(None, None)] * count
    for row in range(first):
        turned_row = [_fixed_turn(columns[each][row], cosines[row * each], sines[row * each]) for each in range(second)]
        for each, number in enumerate(_transform(turned_row, sign)):
            found[row + first * each] = number
    return found


def _fixed_turn(number: _Number, cosine: float, sine: float) -> _Number:
    if sine == 0.0:
        return number if cosine == 1.0 else _scaled(number, cosine)
    if cosine == 0.0:
        return _times_i(number, 1 if sine > 0 else -1)
    return _multiplied(number, cosine, sine)


def _prime(numbers: list[_Number], sign: int) -> list[_Number]:
    """Return the transform of a prime number of numbers: those that lie opposite each other have the same cosines, and opposite sines."""
    count = len(numbers)
    cosines, sines = circle(count, sign)
    half = range(1, (count + 1) // 2)
    sums = {each: _sum(numbers[each], numbers[count - each]) for each in half}
    differences = {each: _difference(numbers[each], numbers[count - each]) for each in half}
    found: list[_Number] = [numbers[0]] * count
    for each in half:
        found[0] = _sum(found[0], sums[each])

    def weighted(given: dict[int, _Number], weights: Sequence[float], row: int, start: _Number) -> _Number:
        for each in half:
            start = _sum(start, _scaled(given[each], weights[row * each % count]))
        return start

    for row in half:
        middle = weighted(sums, cosines, row, numbers[0])
        side = _times_i(weighted(differences, sines, row, (None, None)), 1)
        found[row], found[count - row] = _sum(middle, side), _difference(middle, side)
    return found
