"""Scatters: kinds, types, collisions, lanes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from webgpu_torch_core.ir.dtypes import (
    bfloat16,
    bool_,
    compute_dtype,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
)
from webgpu_torch_core.ir.expression import binary, cast, constant, coordinate, load
from webgpu_torch_core.ir.kernels import Pointwise, Reduction, RowProgram, Scatter, Store
from webgpu_torch_core.ir.monoids import monoid

from .base import Conformance
from .building import FLOATS, INTEGERS, STORAGE, operands, outputs, read
from .running import run_kernel

INF, NAN = math.inf, math.nan


def scatter(of: dtype, size: int, count: int, kind: str | None, index_kind: dtype = int64) -> Scatter:
    """Return the kernel ``target[index[i]] = combine(target[index[i]], values[i])`` of target, index, values."""
    return Scatter(
        operands((of, size), (index_kind, count), (of, count)), outputs((of, size, 0)), (), f"scatter {kind} {of}", (),
        (count,),
        load(1, 0, (1,), index_kind), load(2, 0, (1,), of), None if kind is None else monoid(kind, compute_dtype(of)),
    )  # fmt: skip


def combined(target: list[Any], index: list[int], values: list[Any], combine: Any) -> list[Any]:
    """Return the target after all entries, in order."""
    result = list(target)
    for at, value in zip(index, values, strict=True):
        result[at] = combine(result[at], value)
    return result


COMBINE = {"sum": lambda a, b: a + b, "product": lambda a, b: a * b, "maximum": max, "minimum": min}


class ScatterTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize("index_kind", [int32, int64], ids=str)
    @pytest.mark.parametrize("of", STORAGE, ids=str)
    def test_set(self, of: dtype, index_kind: dtype) -> None:
        self.needs(of, index_kind)
        index = [8, 0, 3, 1]
        target, values = [1, 0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 1, 1]
        wanted: list[Any] = combined(target, index, values, lambda _, b: b)
        convert = bool if of is bool_ else float if of.category == 2 else int
        lists = [list(map(convert, each)) for each in (target, values, wanted)]
        self.check(scatter(of, 9, 4, None, index_kind), [lists[0], index, lists[1]], [lists[2]])

    @pytest.mark.parametrize("width", [3, 8])
    @pytest.mark.parametrize("form", ["pointwise", "rows"])
    @pytest.mark.parametrize("of", STORAGE, ids=str)
    def test_stores_at_places(self, of: dtype, form: str, width: int) -> None:
        # Rows 1 and 2 of four go to the rows that operand 1 names, of a target of six; all of them to another output.
        if not self.target.places:
            pytest.skip(f"kernels of {self.target.name} do not store at computed places")
        self.needs(of, int64)
        row, value = coordinate(0), cast(read(0, (4, width), of), of)
        inside = binary("less_equal", constant(1, int32), row) & binary("less", row, 3)
        place = cast(load(1, 0, (1,), int64), int32) * width
        stores = Store(0, 0, (width, 1), value), Store(1, 0, (0, 1), value, place, inside)
        given = operands((of, 4 * width), (int64, 4), (of, 6 * width)), outputs((of, 4 * width), (of, 6 * width, 2)), ()
        kernel: Any = Pointwise(*given, "places", (4, width), stores)
        if form == "rows":
            some = Reduction(monoid("any", bool_), binary("not_equal", read(0, (4, width), of), 0))
            kernel = RowProgram(*given, "places", (4,), (width,), (some,), (), stores)
        convert = bool if of is bool_ else float if of.category == 2 else int
        values, target = [[convert(each % 5) for each in range(n * width)] for n in (4, 6)]
        wanted = list(target)
        for number, to in ((1, 4), (2, 0)):
            wanted[to * width : (to + 1) * width] = values[number * width : (number + 1) * width]
        self.check(kernel, [values, [9, 4, 0, -9], target], [values, wanted])

    @pytest.mark.parametrize("kind", ["sum", "product", "maximum", "minimum"])
    @pytest.mark.parametrize("of", [*INTEGERS, *FLOATS], ids=str)
    def test_collisions(self, of: dtype, kind: str) -> None:
        self.needs(of, int64)
        # Neighbours, repetitions and untouched elements.
        target, index, values = [1, 2, 3, 4, 5, 6, 7], [0, 1, 1, 5, 0, 1, 6], [2, 4, 1, 3, 2, 4, 9]
        wanted = combined(target, index, values, COMBINE[kind])
        convert = float if of.category == 2 else int
        lists = [list(map(convert, each)) for each in (target, values, wanted)]
        self.check(scatter(of, 7, 7, kind), [lists[0], index, lists[1]], [lists[2]])

    def test_several_writers_of_one_element(self) -> None:
        self.needs(int64)
        (result,) = run_kernel(
            self.target, scatter(float32, 3, 4, None), [[0.0, 7.0, 0.0], [0, 0, 2, 0], [1.0, 2.0, 3.0, 4.0]]
        )
        if result[0] not in (1.0, 2.0, 4.0) or result[1:] != [7.0, 3.0]:
            raise AssertionError(f"one of the written values must win: {result}")

    def test_nan_and_infinity(self) -> None:
        self.needs(int64)
        index, values = [0, 1, 2, 2, 3, 3], [NAN, 1.0, INF, -INF, 2.0, NAN]
        target = [1.0, NAN, 0.0, -5.0]
        self.check(scatter(float32, 4, 6, "sum"), [target, index, values], [[NAN, NAN, NAN, NAN]])
        self.check(scatter(float32, 4, 6, "maximum"), [target, index, values], [[NAN, NAN, INF, NAN]])
        self.check(scatter(float32, 4, 6, "minimum"), [target, index, values], [[NAN, NAN, -INF, NAN]])

    def test_wide_and_wrapping_integers(self) -> None:
        self.needs(int64)
        wide = [2**40, -(2**40), 2**63 - 1]
        self.check(
            scatter(int64, 3, 3, "sum"), [wide, [0, 1, 2], [2**33, -1, 1]], [[2**40 + 2**33, -(2**40) - 1, -(2**63)]]
        )
        self.check(scatter(int64, 3, 3, "maximum"), [wide, [0, 1, 2], [-1, -1, -1]], [[2**40, -1, 2**63 - 1]])
        if int8 in self.target.dtypes:
            self.check(scatter(int8, 4, 3, "sum"), [[127, 1, 1, -128], [0, 0, 3], [1, 1, -1]], [[-127, 1, 1, 127]])

    def test_order_of_float_sums(self) -> None:
        self.needs(int64)
        # In this order every addition of 1 vanishes, so any other order would show.
        count = 64
        values = [2.0**24, *([1.0] * (count - 1))]
        kernel = scatter(float32, 2, count, "sum")
        inputs = [[0.0, 3.0], [0] * count, values]
        self.check(kernel, inputs, [[2.0**24, 3.0]], relative=1.3e-6 * 4)
        mixed = [[0.0, 0.0], [i % 2 for i in range(count)], [0.1 * i for i in range(count)]]
        first = run_kernel(self.target, kernel, mixed)
        for _ in range(3):
            if run_kernel(self.target, kernel, mixed) != first:
                raise AssertionError("the same scatter gave other bits when it ran again")

    def test_lanes(self) -> None:
        # scatter_add along the first dimension of a 5 x 3 target: lanes are the columns, entries the rows of the index.
        self.needs(int64)
        kernel = Scatter(
            operands((float32, 15), (int64, 12), (float32, 12)), outputs((float32, 15, 0)), (), "lanes", (3,), (4,),
            cast(load(1, 0, (1, 3), int64), int32) * 3 + coordinate(0), load(2, 0, (1, 3), float32), monoid("sum", float32),
        )  # fmt: skip
        index = [0, 1, 2, 0, 1, 4, 3, 1, 2, 0, 0, 0]
        values = [float(i) for i in range(12)]
        wanted = [0.5] * 15
        for position, (row, value) in enumerate(zip(index, values, strict=True)):
            wanted[row * 3 + position % 3] += value
        self.check(kernel, [[0.5] * 15, index, values], [wanted])

    def test_lanes_and_entries_of_several_dimensions(self) -> None:
        # index_add of slices: entries are rows, lanes the elements of a slice.
        self.needs(int64)
        kernel = Scatter(
            operands((float32, 24), (int64, 2), (float32, 12)), outputs((float32, 24, 0)), (), "slices", (2, 3), (2,),
            cast(load(1, 0, (0, 0, 1), int64), int32) * 6 + coordinate(0) * 3 + coordinate(1),
            load(2, 0, (3, 1, 6), float32) * 2.0, monoid("sum", float32),
        )  # fmt: skip
        wanted = [1.0] * 24
        for i in range(12):
            wanted[(3, 1)[i // 6] * 6 + i % 6] += 2.0 * i
        self.check(kernel, [[1.0] * 24, [3, 1], [float(i) for i in range(12)]], [wanted])

    @pytest.mark.parametrize("of", [float16, bfloat16, int8, float64], ids=str)
    def test_values_computed_in_wider_types(self, of: dtype) -> None:
        self.needs(of, int64)
        kernel = scatter(of, 3, 5, "sum").replace(
            value=cast(read(2, (5,), of) * 2 + cast(coordinate(0), compute_dtype(of)), of)
        )
        numbers = [1, 2, 3, 4, 5]
        wanted = combined([1, 1, 1], [0, 2, 2, 0, 0], [2 * each + i for i, each in enumerate(numbers)], COMBINE["sum"])
        self.check(kernel, [[1, 1, 1], [0, 2, 2, 0, 0], numbers], [wanted])

    def test_many_entries(self) -> None:
        self.needs(int64)
        size = self.large_elements // 20
        index = [i * 7919 % 50 for i in range(size)]
        wanted = [float(index.count(i)) for i in range(50)]
        self.check(scatter(float32, 50, size, "sum"), [[0.0] * 50, index, [1.0] * size], [wanted])
