"""Kernels over boxes of their domain where what depends on coordinates alone is decided.

Concatenation, padding, pooling's gradient and slices are recorded as loads at computed positions under tests of coordinates, complex
numbers as a test of which of its parts a coordinate names. Cut where a test changes its outcome, and into every m-th coordinate
where a remainder by m is taken, the domain falls into boxes in which every test has one outcome and positions are sums of
coordinates times numbers: strided loads, which NumPy copies without computing a position. It is the splitting of index sets that compilers of loops do (M. Wolfe, High Performance Compilers for
Parallel Computing, 1996).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from webgpu_torch_core.ir.dtypes import bool_, dtype, int32, int64
from webgpu_torch_core.ir.expression import Expression, constant, load, make, rewrite, topological
from webgpu_torch_core.ir.kernels import Store
from webgpu_torch_core.ir.layouts import Shape, number_of_elements
from webgpu_torch_core.ir.reindexing import reindex

from .windows import Affine

#: boxes that a domain is cut into at most, and elements that a box has on average at least: each costs a call of NumPy a step
MOST_BOXES = 32
LEAST_ELEMENTS = 1 << 10

#: how often a quotient may become another one along a dimension that is cut there: what is rolled does so once
MOST_TURNS = 3

#: elements of a row from which on it is worth to load it as one
LEAST_ROW = 8

_LARGEST = {int32: (1 << 31) - 1, int64: (1 << 63) - 1}
_TESTS = ("less", "less_equal", "equal", "not_equal")
#: steps that what is known of their arguments may decide
_DECIDED = frozenset((
    *_TESTS, "minimum", "maximum", "floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_not", "coordinate", "select",
    "cast", "load_at",
))  # fmt: skip


class Piece(NamedTuple):
    """Stores over a box of a domain, in coordinates of the box."""

    shape: Shape
    stores: tuple[Store, ...]


class Cut(NamedTuple):
    """Where a dimension is cut: at a coordinate, or into so many interleaved parts."""

    dimension: int
    at: int
    parts: int


class Rows(NamedTuple):
    """Where rows of elements start, and how far apart their elements lie along each axis; 0 along those that number the rows."""

    first: Expression
    strides: Shape


def rows_of(index: Expression, shape: Shape) -> Rows | None:
    """Return positions over a domain as those of whole rows, None where these are short."""
    if 0 in shape:
        return None
    facts = _Facts(shape)
    return facts.rows(facts.simplified(index))


def pieces(shape: Shape, stores: tuple[Store, ...], by_rows: bool = True) -> list[Piece]:
    """Return what to do instead of some stores over a domain: the same in boxes."""
    whole = Piece(shape, stores)
    if 0 in shape or not any(node.step == "coordinate" for each in stores for node in topological(each.value)):
        return [whole]
    elements = number_of_elements(shape)
    # Of few elements calls are all that counts: boxes are worth it where they have fewer together.
    few = elements < MOST_BOXES * LEAST_ELEMENTS
    limit = MOST_BOXES if few else min(MOST_BOXES, elements // LEAST_ELEMENTS)
    done: list[Piece] = []
    waiting = [_simplified(whole)]
    while waiting:
        piece = waiting.pop()
        cut = _cut(piece)
        if cut is None or len(done) + len(waiting) + max(cut.parts, 2) > limit:
            done.append(_simplified(piece, by_rows))
        else:
            waiting += _parts(piece, cut)
    if (
        few
        and len(done) > elements // LEAST_ELEMENTS
        and len(done) > 1
        and _calls(done) > _calls([whole := _simplified(whole, by_rows)])
    ):
        return [whole]
    return done


def _calls(pieces: list[Piece]) -> int:
    """Return about how many calls of NumPy the kernels over some boxes have: one for each step and each store."""
    return sum(
        len(piece.stores)
        + sum(
            node.step not in ("constant", "parameter") for node in topological(*(each.value for each in piece.stores))
        )
        for piece in pieces
    )


def simplify(root: Expression, shape: Shape, by_rows: bool = True) -> Expression:
    """Return an expression with everything decided that is the same all over a domain, and with strided loads where it can be.

    ``by_rows``: and with loads of rows for others, where rows are long.
    """
    return root if 0 in shape else _Facts(shape, by_rows).simplified(root)


def _simplified(piece: Piece, by_rows: bool = False) -> Piece:
    facts = _Facts(piece.shape, by_rows)
    return piece._replace(stores=tuple(each.replace(value=facts.simplified(each.value)) for each in piece.stores))


def _parts(piece: Piece, cut: Cut) -> Iterator[Piece]:
    """Yield the boxes that a cut leaves."""
    size = piece.shape[cut.dimension]
    if cut.parts:
        ranges = [(first, cut.parts, len(range(first, size, cut.parts))) for first in range(min(cut.parts, size))]
    else:
        ranges = [(0, 1, cut.at), (cut.at, 1, size - cut.at)]
    count = len(piece.shape)
    for start, step, number in ranges:
        terms = tuple(((axis, step if axis == cut.dimension else 1),) for axis in range(count))
        starts = [start if axis == cut.dimension else 0 for axis in range(count)]
        stores = tuple(
            Store(
                each.output,
                each.offset + each.strides[cut.dimension] * start,
                tuple(stride * (step if axis == cut.dimension else 1) for axis, stride in enumerate(each.strides)),
                reindex(each.value, terms, starts),
            )
            for each in piece.stores
        )
        shape = (*piece.shape[: cut.dimension], number, *piece.shape[cut.dimension + 1 :])
        yield _simplified(Piece(shape, stores))


def _cut(piece: Piece) -> Cut | None:
    """Return where to cut a box so that more is decided: by remainders, then at tests, which may drop what else would be."""
    facts = _Facts(piece.shape)
    found: list[Cut | None] = [None, None]
    for node in topological(*(each.value for each in piece.stores)):
        facts.note(node)
        if node.step in ("remainder", "floor_divide"):
            cut = _cut_into(facts, node, piece.shape)
            if cut is not None:
                return cut
        elif node.step in _TESTS or node.step in ("minimum", "maximum"):
            later = node.step not in _TESTS
            found[later] = found[later] or _cut_at(facts, node, piece.shape)
    return found[0] or found[1]


def _cut_at(facts: _Facts, node: Expression, shape: Shape) -> Cut | None:
    """Return where the difference of two operands, of a single coordinate, changes its sign."""
    difference = facts.difference(node)
    if difference is None or len(difference.factors) != 1:
        return None
    ((axis, factor),) = difference.factors
    # The first coordinate with a positive difference, or the first without, and the one where it is no longer (or not yet) zero.
    zero = -difference.constant / factor
    for at in sorted({math.ceil(zero), math.floor(zero) + 1}):
        inside = 0 < at < shape[axis]
        if inside and _outcome(node, difference, axis, at - 1) != _outcome(node, difference, axis, at):
            return Cut(axis, at, 0)
    return None


def _outcome(node: Expression, difference: Affine, axis: int, at: int) -> bool:
    """Return what a test says of ``right - left`` at a coordinate; of two operands, whether the first is the smaller."""
    value = difference.constant + dict(difference.factors)[axis] * at
    if node.step in ("equal", "not_equal"):
        return value == 0
    return value > 0 if node.step == "less" else value >= 0


def _cut_into(facts: _Facts, node: Expression, shape: Shape) -> Cut | None:
    """Return the parts in which the remainder of one coordinate is a single number, or where its quotient becomes another one."""
    position, divisor = (facts.affine.get(each) for each in node.arguments)
    if position is None or divisor is None or divisor.factors or divisor.constant < 2 or len(position.factors) != 1:
        return None
    ((axis, factor),) = position.factors
    by = divisor.constant
    parts = by // math.gcd(factor, by)
    if 1 < parts <= 8 and parts <= shape[axis]:
        return Cut(axis, 0, parts)
    low, high = position.extremes(shape)
    if not low // by < high // by <= low // by + MOST_TURNS:
        return None
    rest = position.constant % by
    return Cut(axis, -(-(by - rest) // factor) if factor > 0 else rest // -factor + 1, 0)


class _Facts:
    """What integer expressions are over a box: sums of coordinates times numbers, and between which bounds.

    ``by_rows``: loads at computed positions become loads of rows, which cannot be cut any further.
    """

    def __init__(self, shape: Shape, by_rows: bool = False) -> None:
        self.shape = shape
        self.by_rows = by_rows
        self.affine: dict[Expression, Affine] = {}
        self.known: set[Expression] = set()

    def simplified(self, root: Expression) -> Expression:
        """Return an expression with what is known of it used."""
        return rewrite(root, self._replace)

    def difference(self, node: Expression) -> Affine | None:
        """Return ``right - left`` of a node with two operands."""
        left, right = (self.affine.get(each) for each in node.arguments)
        return None if left is None or right is None else _plus(right, left, -1)

    def note(self, node: Expression) -> None:
        """Remember what an expression is; its arguments must have been noted."""
        largest = _LARGEST.get(node.dtype)
        if largest is None or node in self.known:
            return
        self.known.add(node)
        found = self._affine(node)
        if found is not None:
            low, high = found.extremes(self.shape)
            # What overflows wraps, and is no such sum.
            if -largest <= low and high <= largest:
                self.affine[node] = found

    def _affine(self, node: Expression) -> Affine | None:
        step, payload = node.step, node.payload
        if step == "coordinate":
            return Affine(((payload, 1),) if self.shape[payload] > 1 else (), 0)
        if step == "constant":
            return Affine((), int(payload))
        parts = [self.affine.get(each) for each in node.arguments]
        first = parts[0] if parts else None
        if first is None or step == "cast":
            return first
        second = parts[1] if len(parts) == 2 else None
        if second is None:
            return None
        if step in ("add", "subtract"):
            return _plus(first, second, 1 if step == "add" else -1)
        if step == "multiply":
            for one, other in ((first, second), (second, first)):
                if not other.factors:
                    return _plus(Affine((), 0), one, other.constant)
        return None

    def _replace(self, node: Expression, arguments: tuple[Expression, ...]) -> Expression:
        result = self._decided(node, arguments) if node.step in _DECIDED else None
        if result is None:
            result = node if arguments == node.arguments else make(node.step, arguments, node.payload, node.dtype)
        self.note(result)
        return result

    def _decided(self, node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        step = node.step
        if step == "coordinate" and self.shape[node.payload] == 1:
            return constant(0, node.dtype)
        if step == "select" and arguments[0].step == "constant":
            return arguments[1] if arguments[0].payload else arguments[2]
        if step == "cast" and arguments[0].dtype is bool_ and arguments[0].step == "constant":
            return constant(arguments[0].payload, node.dtype)
        if step == "load_at":
            index = self.affine.get(arguments[0])
            if index is not None:
                return load(node.payload, index.constant, self._strides(index), node.dtype)
            return self._rows(node, arguments[0]) if self.by_rows else None
        if step in ("bitwise_and", "bitwise_or", "bitwise_not") and node.dtype is bool_:
            return _logic(step, arguments)
        if step in _TESTS or step in ("minimum", "maximum"):
            return self._compared(step, arguments)
        if step in ("floor_divide", "remainder"):
            return self._divided(step, arguments, node.dtype)
        return None

    def _rows(self, node: Expression, index: Expression) -> Expression | None:
        """Return a load at computed positions as one of whole rows: along some axes the position is a sum, along others not."""
        found = self.rows(index)
        return found and make("load_rows", (found.first,), (node.payload, found.strides), node.dtype)

    def rows(self, index: Expression) -> Rows | None:
        """Return positions as those of whole rows, None where these are short."""
        position, computed = self._split(index)
        decides = {axis for each in computed for axis in self._axes(each)}
        row = tuple((axis, factor) for axis, factor in position.factors if axis not in decides and factor > 0)
        if math.prod(self.shape[axis] for axis, _ in row) < LEAST_ROW:
            return None
        first = _written(
            Affine(tuple(each for each in position.factors if each not in row), position.constant), index.dtype
        )
        for each in computed:
            first = make("add", (first, each), None, index.dtype)
        return Rows(first, self._strides(Affine(row, 0)))

    def _split(self, node: Expression) -> tuple[Affine, list[Expression]]:
        """Return a position as a sum of coordinates times numbers, and the rest."""
        known = self.affine.get(node)
        if known is not None:
            return known, []
        if node.step == "add":
            (left, rest), (right, more) = map(self._split, node.arguments)
            return _plus(left, right, 1), rest + more
        if node.step == "multiply":
            for one, factor in (node.arguments, node.arguments[::-1]):
                by = self.affine.get(factor)
                if by is not None and not by.factors:
                    inner, rest = self._split(one)
                    return _plus(Affine((), 0), inner, by.constant), [
                        make("multiply", (each, factor), None, node.dtype) for each in rest
                    ]
        if node.step == "cast" and node.arguments[0].dtype in _LARGEST:
            inner, rest = self._split(node.arguments[0])
            return inner, [make("cast", (each,), None, node.dtype) for each in rest]
        return Affine((), 0), [node]

    def _axes(self, root: Expression) -> set[int]:
        """Return the axes along which an expression may vary."""
        found: set[int] = set()
        for node in topological(root):
            if node.step == "coordinate":
                found.add(node.payload)
            elif node.step in ("load", "load_rows"):
                found.update(axis for axis, stride in enumerate(node.payload[-1]) if stride)
            elif node.step in ("reduced", "accumulator"):
                found.update(range(len(self.shape)))
        return found

    def _strides(self, index: Affine) -> Shape:
        factors = dict(index.factors)
        return tuple(factors.get(axis, 0) for axis in range(len(self.shape)))

    def _compared(self, step: str, arguments: tuple[Expression, ...]) -> Expression | None:
        left, right = arguments
        if left.step == right.step == "constant" and left.dtype is right.dtype and step in ("equal", "not_equal"):
            return constant((left.payload == right.payload) is (step == "equal"), bool_)
        one, other = self.affine.get(left), self.affine.get(right)
        if one is None or other is None:
            return None
        low, high = _plus(other, one, -1).extremes(self.shape)
        if step in ("minimum", "maximum"):
            return arguments[step == "maximum"] if low >= 0 else arguments[step == "minimum"] if high <= 0 else None
        if step in ("less", "less_equal"):
            least = 1 if step == "less" else 0
            return constant(True, bool_) if low >= least else constant(False, bool_) if high < least else None
        if low > 0 or high < 0 or low == high == 0:
            return constant((low == high == 0) is (step == "equal"), bool_)
        return None

    def _divided(self, step: str, arguments: tuple[Expression, ...], kind: dtype) -> Expression | None:
        position, divisor = (self.affine.get(each) for each in arguments)
        if position is None or divisor is None or divisor.factors or divisor.constant < 1:
            return None
        by = divisor.constant
        whole = tuple((axis, factor // by) for axis, factor in position.factors if factor % by == 0)
        parts = tuple((axis, factor) for axis, factor in position.factors if factor % by)
        rest = Affine(parts, position.constant)
        low, high = rest.extremes(self.shape)
        if low // by != high // by:
            return None
        quotient = Affine(whole, low // by)
        return _written(quotient if step == "floor_divide" else _plus(rest, Affine((), low // by), -by), kind)


def _logic(step: str, arguments: tuple[Expression, ...]) -> Expression | None:
    if step == "bitwise_not":
        return constant(not arguments[0].payload, bool_) if arguments[0].step == "constant" else None
    for one, other in (arguments, arguments[::-1]):
        if one.step == "constant":
            # True decides "or" and leaves the other of "and".
            return one if bool(one.payload) is (step == "bitwise_or") else other
    return None


def _plus(left: Affine, right: Affine, times: int) -> Affine:
    factors = dict(left.factors)
    for axis, factor in right.factors:
        factors[axis] = factors.get(axis, 0) + factor * times
    kept = tuple(sorted((axis, each) for axis, each in factors.items() if each))
    return Affine(kept, left.constant + right.constant * times)


def _written(value: Affine, kind: dtype) -> Expression:
    """Return the expression of a sum."""
    result = constant(value.constant, kind)
    for axis, factor in value.factors:
        term = make("coordinate", (), axis, int32)
        term = term if kind is int32 else make("cast", (term,), None, kind)
        term = term if factor == 1 else make("multiply", (term, constant(factor, kind)), None, kind)
        result = make("add", (result, term), None, kind)
    return result
