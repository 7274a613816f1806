"""Scans and sorts."""

from __future__ import annotations

import itertools
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
    uint8,
)
from webgpu_torch_core.ir.expression import apply, cast, load
from webgpu_torch_core.ir.kernels import Scan, Sort
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides, number_of_elements
from webgpu_torch_core.ir.monoids import monoid

from .base import Conformance
from .building import STORAGE, operands, outputs, read

INF, NAN = math.inf, math.nan


def scan(shape: Shape, kind: str, of: dtype, positions: bool = False, reverse: bool = False) -> Scan:
    """Return the scan of a row-major operand along its last dimension."""
    size = number_of_elements(shape)
    parts = ((of, size), (int64, size)) if positions else ((of, size),)
    return Scan(
        operands((of, size)), outputs(*parts), (), f"scan {kind} {of}", shape,
        monoid(kind, compute_dtype(of)), read(0, shape, of), reverse, 0, contiguous_strides(shape),
    )  # fmt: skip


def sort(shape: Shape, of: dtype, descending: bool = False, limit: int | None = None) -> Sort:
    """Return the sort of a row-major operand along its last dimension."""
    limit = shape[-1] if limit is None else limit
    size = number_of_elements(shape[:-1]) * limit
    value = load(0, 0, contiguous_strides(shape), of)
    return Sort(
        operands((of, number_of_elements(shape))), outputs((of, size), (int64, size)), (), f"sort {of}", shape,
        value, of,
        descending, limit,
    )  # fmt: skip


def sorted_rows(values: list[Any], length: int, descending: bool, limit: int) -> list[list[Any]]:
    """Return sorted values and positions, row by row; NaN is the greatest."""
    result: list[list[Any]] = [[], []]
    for start in range(0, len(values), length):
        row = values[start : start + length]
        # NaN compares as greater than everything, and ties keep their order in both directions.
        order = sorted(
            range(length), key=lambda i: (row[i] != row[i], 0 if row[i] != row[i] else row[i]), reverse=descending
        )
        result[0] += [row[i] for i in order[:limit]]
        result[1] += order[:limit]
    return result


class OrderingTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize(
        ("kind", "forward", "backward"),
        [
            ("sum", [1.0, 3.0, -1.0, -0.5], [-0.5, -1.5, -3.5, 0.5]),
            ("product", [1.0, 2.0, -8.0, -4.0], [-4.0, -4.0, -2.0, 0.5]),
            ("maximum", [1.0, 2.0, 2.0, 2.0], [2.0, 2.0, 0.5, 0.5]),
            ("minimum", [1.0, 1.0, -4.0, -4.0], [-4.0, -4.0, -4.0, 0.5]),
        ],
    )
    def test_kinds(self, kind: str, forward: list[float], backward: list[float], reverse: bool) -> None:
        row = [1.0, 2.0, -4.0, 0.5]
        expected = backward if reverse else forward
        self.check(scan((2, 4), kind, float32, reverse=reverse), [row * 2], [expected * 2])

    @pytest.mark.parametrize("of", [uint8, int8, int32, int64, float16, bfloat16, float32, float64], ids=str)
    def test_scans_of_types(self, of: dtype) -> None:
        self.needs(of)
        values: list[Any] = [3, 1, 2, 0, 4, 1, 1, 5, 2, 2]
        if of.category == 2:
            values = [float(each) for each in values]
        sums = [*itertools.accumulate(values[:5]), *itertools.accumulate(values[5:])]
        highest = [*itertools.accumulate(values[:5], max), *itertools.accumulate(values[5:], max)]
        self.check(scan((2, 5), "sum", of), [values], [sums])
        self.check(scan((2, 5), "maximum", of), [values], [highest])
        self.check(scan((2, 5), "minimum", of, reverse=True), [values])

    def test_sums_of_narrow_integers_as_int64(self) -> None:
        self.needs(int64, int8)
        kernel = scan((4,), "sum", int64).replace(operands=operands((int8, 4)), value=cast(read(0, (4,), int8), int64))
        self.check(kernel, [[100, 100, -100, 127]], [[100, 200, 100, 227]])
        wide = scan((3,), "sum", int64)
        self.check(wide, [[2**40, 2**40, -1]], [[2**40, 2**41, 2**41 - 1]])

    @pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 257, 1000, 3000])
    def test_scan_lengths(self, length: int) -> None:
        values = [float((i * 7919) % 13 - 6) for i in range(3 * length)]
        rows = [values[i * length : (i + 1) * length] for i in range(3)]
        sums = [each for row in rows for each in itertools.accumulate(row)]
        self.check(scan((3, length), "sum", float32), [values], [sums])
        back = [each for row in rows for each in [*itertools.accumulate(row[::-1])][::-1]]
        self.check(scan((3, length), "sum", float32, reverse=True), [values], [back])
        highest = [each for row in rows for each in itertools.accumulate(row, max)]
        self.check(scan((3, length), "maximum", float32), [values], [highest])

    @pytest.mark.parametrize("kind", ["maximum", "minimum"])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_positions_of_running_extrema(self, kind: str, reverse: bool) -> None:
        self.needs(int64)
        sign = 1.0 if kind == "maximum" else -1.0
        row = [sign * each for each in (1.0, 3.0, 3.0, 2.0, 5.0, 5.0)]
        # The last of equal extrema, in the order of the scan.
        forward = ([1, 3, 3, 3, 5, 5], [0, 1, 2, 2, 4, 5])
        backward = ([5, 5, 5, 5, 5, 5], [4, 4, 4, 4, 4, 5])
        values, places = backward if reverse else forward
        self.check(
            scan((6,), f"running_{kind}", float32, True, reverse), [row], [[sign * each for each in values], places]
        )

    def test_positions_with_nan(self) -> None:
        self.needs(int64)
        row = [1.0, NAN, 7.0, NAN, 2.0]
        self.check(scan((5,), "running_maximum", float32, True), [row], [[1.0, NAN, NAN, NAN, NAN], [0, 1, 1, 3, 3]])
        self.check(
            scan((5,), "running_minimum", float32, True, True), [row], [[NAN, NAN, NAN, NAN, 2.0], [1, 1, 3, 3, 4]]
        )
        self.check(scan((3,), "running_maximum", float32, True), [[-INF, -INF, INF]], [[-INF, -INF, INF], [0, 1, 2]])

    def test_sums_with_infinities(self) -> None:
        self.check(scan((4,), "sum", float32), [[1.0, INF, -INF, 1.0]], [[1.0, INF, NAN, NAN]])
        self.check(scan((3,), "product", float32), [[2.0, NAN, 0.0]], [[2.0, NAN, NAN]])

    def test_scan_of_columns_into_columns(self) -> None:
        # The scanned dimension is the first of the tensor: strided loads, and stores of the same layout.
        shape = (3, 4)
        kernel = scan(shape, "sum", int32).replace(value=apply("add", read(0, shape, int32, (1, 3)), 1), strides=(1, 3))
        values = list(range(12))
        wanted = [sum(values[j : i * 3 + j + 1 : 3]) + i + 1 for i in range(4) for j in range(3)]
        self.check(kernel, [values], [wanted])

    def test_scan_into_a_region(self) -> None:
        kernel = scan((2, 3), "sum", float32).replace(
            operands=operands((float32, 6), (float32, 12)), outputs=outputs((float32, 12, 1)), offset=2, strides=(5, 1)
        )
        wanted = [9.0, 9.0, 1.0, 3.0, 6.0, 9.0, 9.0, 4.0, 9.0, 15.0, 9.0, 9.0]
        self.check(kernel, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [9.0] * 12], [wanted])

    @pytest.mark.parametrize("descending", [False, True])
    @pytest.mark.parametrize("of", STORAGE, ids=str)
    def test_sorts_of_types(self, of: dtype, descending: bool) -> None:
        self.needs(of, int64)
        values: list[Any] = [3, 1, 2, 0, 3, 1, 1, 5, 2, 2, 7, 7, 100, 0]
        if of is bool_:
            values = [each > 1 for each in values]
        elif of.is_signed:
            values[2], values[7] = -values[2], -100
        if of.category == 2:
            values = [float(each) for each in values]
            values[4], values[8], values[9] = NAN, INF, -INF
        self.check(sort((2, 7), of, descending), [values], sorted_rows(values, 7, descending, 7))

    @pytest.mark.parametrize("descending", [False, True])
    def test_stability(self, descending: bool) -> None:
        self.needs(int64)
        values = [float(i * 7 % 3) for i in range(100)]
        self.check(sort((100,), float32, descending), [values], sorted_rows(values, 100, descending, 100))
        nan = [NAN, 1.0, NAN, 1.0, -INF, NAN, INF, INF]
        self.check(sort((8,), float32, descending), [nan], sorted_rows(nan, 8, descending, 8))
        zeros = [0.0, -0.0, 0.0, -0.0, -1.0]
        places = [0, 1, 2, 3, 4] if descending else [4, 0, 1, 2, 3]
        self.check(sort((5,), float32, descending), [zeros], [[zeros[i] for i in places], places])

    @pytest.mark.parametrize("length", [1, 2, 3, 31, 64, 65, 255, 256, 257, 700, 2500])
    def test_sort_lengths(self, length: int) -> None:
        self.needs(int64)
        values = [float(i * 7919 % 1009 // 2) for i in range(2 * length)]
        for descending in (False, True):
            self.check(
                sort((2, length), float32, descending), [values], sorted_rows(values, length, descending, length)
            )

    def test_extreme_integers(self) -> None:
        self.needs(int64)
        values = [2**63 - 1, -(2**63), 0, -1, 2**32, -(2**32), 2**31, 1]
        self.check(sort((8,), int64), [values], sorted_rows(values, 8, False, 8))
        self.check(sort((8,), int64, True), [values], sorted_rows(values, 8, True, 8))
        narrow = [2**31 - 1, -(2**31), 0, -1]
        self.check(sort((4,), int32), [narrow], sorted_rows(narrow, 4, False, 4))

    @pytest.mark.parametrize("limit", [1, 3, 10])
    def test_first_of_the_order(self, limit: int) -> None:
        self.needs(int64)
        values = [float(i * 7 % 10) for i in range(40)]
        self.check(sort((2, 2, 10), float32, True, limit), [values], sorted_rows(values, 10, True, limit))
        self.check(sort((2, 2, 10), float32, False, limit), [values], sorted_rows(values, 10, False, limit))

    def test_sort_of_an_expression(self) -> None:
        self.needs(int64)
        kernel = sort((3, 4), float32).replace(value=-load(0, 0, (1, 3), float32))
        values = [float(i * 5 % 12) for i in range(12)]
        turned = [-values[i + 3 * j] for i in range(3) for j in range(4)]
        self.check(kernel, [values], sorted_rows(turned, 4, False, 4))
