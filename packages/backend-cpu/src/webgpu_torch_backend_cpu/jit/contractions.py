"""Contractions as loops: windows over single channels, small products and products of integers; BLAS has the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from webgpu_torch_core.ir.expression import Expression, accumulator, cast, load, rewrite
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, Pointwise, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements

from .. import boxes
from ..windows import Axis, Window, window_of
from .function import Function
from .functions import lowered
from .loops import TILE, Piece, finished, in_order, lowered_stores, nest, store, unit_strides
from .planes import planes
from .steps import STEPS, TYPES, Unsupported, kind_of, literal

#: products and sums up to which calling BLAS takes longer than they do
FEW = 1 << 15


class Split(NamedTuple):
    """A product that NumPy computes, and the kernel over it that makes the results; it reads the product as its last operand."""

    product: Contraction
    epilogue: Pointwise
    #: the product lies in the only output, and becomes the result in place
    in_place: bool


def split(kernel: Contraction) -> Split | None:
    """Return a contraction for BLAS in two parts, None where one of them alone would be left."""
    if _is_direct(kernel) or all(each.value.step == "accumulator" for each in kernel.stores):
        return None
    shape, count = kernel.batch + kernel.m + kernel.n, len(kernel.operands)
    (first, *others), of = kernel.stores, kernel.dtype
    output = kernel.outputs[first.output]
    in_place = not others and output.dtype is of and output.initial is None
    if in_place:
        lies = first.replace(output=0, value=accumulator(of))
        result, outputs = output, (output.replace(initial=count),)
    else:
        lies = Store(0, 0, contiguous_strides(shape), accumulator(of))
        result, outputs = Output(of, number_of_elements(shape), None), kernel.outputs
    total = load(count, lies.offset, lies.strides, of)
    stores = tuple(
        each.replace(value=rewrite(each.value, lambda node, _: total if node.step == "accumulator" else None))
        for each in kernel.stores
    )
    epilogue = Pointwise(
        (*kernel.operands, Operand(of, result.numel)), outputs, kernel.parameters, kernel.name, shape, stores
    )
    return Split(kernel.replace(outputs=(result,), stores=(lies,)), epilogue, in_place)


def _is_direct(kernel: Contraction) -> bool:
    """Return whether loops are quicker than BLAS, or BLAS has no such products."""
    if not kernel.k or not kernel.m + kernel.n:
        return False
    if kernel.dtype.category == 1 or kernel.elements() <= FEW:
        return True
    return number_of_elements(kernel.m) == 1 and bool(kernel.batch) and window_of(kernel.right) is not None


def contraction(kernel: Contraction) -> list[Piece]:
    """Return the function of a contraction that needs no BLAS."""
    if not _is_direct(kernel):
        raise Unsupported("a product for BLAS")
    return [planes(kernel) or _Direct(kernel).write()]


class _Direct:
    """Tiles of results that are neighbours, each the sum of products over k.

    The innermost loop goes along a tile, where what is read lies close together along it, or else along k.
    """

    def __init__(self, kernel: Contraction) -> None:
        self.kernel = kernel
        self.domain = kernel.batch + kernel.m + kernel.n + kernel.k
        self.stored = len(self.domain) - len(kernel.k)
        self.along = self.stored - 1
        self.summed = list(range(self.stored, len(self.domain)))
        self.axes: tuple[Axis, ...] = ()
        right = boxes.simplify(kernel.right, self.domain, False)
        window = window_of(kernel.right)
        if window is not None and window.axes:
            self.axes = window.axes
            right = self._without_tests(window)
        sides = (boxes.simplify(kernel.left, self.domain, False), right)
        self.sides = [lowered(cast(each, kernel.dtype)) for each in sides]
        self.across = self._goes_across()
        self.inner = self.along if self.across else self.summed[-1]
        self.letter = "f" if kernel.dtype.category == 2 else kind_of(kernel.dtype)
        self.type = TYPES[kernel.dtype.name]
        self.function = Function(kernel)

    def _goes_across(self) -> bool:
        """Return whether the innermost loop goes along a tile."""
        across, deep = self.along, self.summed[-1]
        if self.domain[across] < 8:
            return False
        if self.axes:
            return self.domain[across] >= self.domain[deep]
        return unit_strides(across, self.domain, self.sides, ()) >= unit_strides(deep, self.domain, self.sides, ())

    def _without_tests(self, window: Window) -> Expression:
        """Return what a window reads inside of its axes: positions are sums of coordinates times numbers."""
        factors, offset = dict(window.rest.factors), window.rest.constant
        for axis in window.axes:
            offset += axis.stride * axis.position.constant
            for dimension, factor in axis.position.factors:
                factors[dimension] = factors.get(dimension, 0) + axis.stride * factor
        strides = tuple(factors.get(dimension, 0) for dimension in range(len(self.domain)))
        return load(window.operand, offset, strides, self.kernel.operands[window.operand].dtype)

    def write(self) -> Piece:
        """Return the function."""
        function, domain = self.function, self.domain
        order = in_order(domain, list(range(self.stored - 1)), None)
        if order:
            with nest(function, domain, order, True, False):
                self._tiles("0", function.number(("size", self.along), domain[self.along]))
        else:
            self._tiles("%begin", "%end")
        return finished(function, domain[order[0] if order else self.along])

    def _tiles(self, start: str, end: str) -> None:
        function = self.function
        sums = function.variable(self.type, TILE)
        with function.loop(None, start, end, step=TILE) as first:
            last = function.least(function.here(f"add nsw i64 {first}, {TILE}"), end)
            if self.across:
                with function.loop(self.along, first, last, parallel=True) as place:
                    self._put(self._at(sums, place, first), literal(0, self.kernel.dtype))
                with nest(function, self.domain, self.summed, False, False):
                    self._inside(first, last, lambda place: self._add(self._at(sums, place, first), True))
            else:
                with function.loop(self.along, first, last) as place:
                    total = function.variable(self.type)
                    self._put(total, literal(0, self.kernel.dtype))
                    with nest(function, self.domain, self.summed[:-1], False, False):
                        end = function.number(("size", self.inner), self.domain[self.inner])
                        self._inside("0", end, lambda _: self._add(total, False))
                    found = function.here(f"load {self.type}, ptr {total}")
                    self._put(self._at(sums, place, first), found)
            stores = tuple(
                each.replace(value=boxes.simplify(each.value, self.domain[: self.stored], False))
                for each in self.kernel.stores
            )
            with function.loop(self.along, first, last, parallel=True) as place:
                scope = function.scopes[-1]
                value = function.here(f"load {self.type}, ptr {self._at(sums, place, first)}{scope.group}")
                scope.names[accumulator(self.kernel.dtype)] = value
                store(function, lowered_stores(stores))

    def _at(self, sums: str, place: str, first: str) -> str:
        number = self.function.here(f"sub nsw i64 {place}, {first}")
        return self.function.here(f"getelementptr {self.type}, ptr {sums}, i64 {number}")

    def _put(self, address: str, value: str) -> None:
        scope = self.function.scopes[-1]
        scope.lines.append(f"store {self.type} {value}, ptr {address}{scope.group}")

    def _add(self, address: str, in_order: bool) -> None:
        """Add a product to a sum; ``in_order``: iterations add to sums of their own."""
        function, (left, right) = self.function, (self.function.value(each) for each in self.sides)
        before = function.here(f"load {self.type}, ptr {address}{function.scopes[-1].group}")
        flags = "" if self.letter != "f" else " contract" if in_order else " reassoc contract"
        add, multiply = (STEPS[step]["f" if self.letter == "f" else "su"] for step in ("add", "multiply"))
        product = function.here(f"{multiply}{flags} {self.type} {left}, {right}")
        self._put(address, function.here(f"{add}{flags} {self.type} {before}, {product}"))

    def _inside(self, start: str, end: str, write: Callable[[str], None]) -> None:
        """Write the innermost loop over where all of a window's positions are inside of their axes."""
        function, conditions = self.function, list[str]()
        for number, axis in enumerate(self.axes):
            factors = dict(axis.position.factors)
            own = factors.pop(self.inner, 0)
            strides = tuple(factors.get(dimension, 0) for dimension in range(len(self.domain)))
            place, _ = function.place(("position", number), axis.position.constant, strides)
            size = function.number(("axis", number), axis.size)
            if not own:
                conditions.append(function.here(f"icmp ult i64 {place}, {size}"))
                continue
            if own < 0:
                raise Unsupported("a window read backwards")
            below = self._quotient(function.here(f"sub nsw i64 0, {place}"), own, number)
            above = self._quotient(function.here(f"sub nsw i64 {size}, {place}"), own, number)
            start, end = function.greatest(start, below), function.least(end, above)
        with function.when(conditions):
            with function.loop(self.inner, start, end, parallel=self.across) as place:
                write(place)

    def _quotient(self, value: str, by: int, number: int) -> str:
        """Return the quotient rounded up, of what is not negative; 0 of what is."""
        function = self.function
        value = function.greatest(value, "0")
        if by == 1:
            return value
        divisor = function.number(("factor", number), by)
        value = function.here(f"add nsw i64 {value}, {function.here(f'sub nsw i64 {divisor}, 1')}")
        return function.here(f"udiv i64 {value}, {divisor}")
