"""Monoids: the ones of the table beyond the usual, and some that no backend can know, in every form that combines."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import pytest
from webgpu_torch_core.ir.dtypes import dtype, float32, int32, int64
from webgpu_torch_core.ir.expression import load, reduced
from webgpu_torch_core.ir.kernels import Reduction, RowProgram, Scan, Scatter
from webgpu_torch_core.ir.layouts import contiguous_strides
from webgpu_torch_core.ir.monoids import Monoid, define, monoid
from webgpu_torch_core.ir.scalar import absolute, less, maximum, where

from .base import Conformance
from .building import operands, outputs, read, write

INF, NAN = math.inf, math.nan


def larger_magnitude(a: Any, b: Any) -> Any:
    """Return the number further from zero, the greater one of two at the same distance."""
    return where(less(absolute(a), absolute(b)), b, where(less(absolute(b), absolute(a)), a, maximum(a, b)))


#: no backend has seen these
FURTHEST = define("furthest", (float32,), (0.0,), larger_magnitude)
COUNT = define("count_and_sum", (float32, int32), (0.0, 0), lambda a, n, b, m: (a + b, n + m), lambda x, _: (x, 1),
               lambda total, count: (total / count, count))  # fmt: skip
#: ``x -> factor * x + shift``, one map after another: the order matters
MAPS = define("maps", (float32, float32), (1.0, 0.0), lambda f, s, g, t: (f * g, s * g + t),
              lambda x, place: (x, place * 1.0), lambda factor, shift: (shift, factor), commutative=False)  # fmt: skip


def row_kernel(outer: int, inner: int, found: Monoid, of: dtype) -> RowProgram:
    """Return the kernel that reduces the rows of a row-major operand."""
    kind = found.results[0].dtype
    return RowProgram(
        operands((of, outer * inner)), outputs((kind, outer)), (), found.name, (outer,), (inner,),
        (Reduction(found, read(0, (outer, inner), of)),), (write(0, (outer,), reduced(0, kind), kind),), (),
    )  # fmt: skip


def scan_kernel(outer: int, inner: int, found: Monoid, of: dtype, count: int = 1, reverse: bool = False) -> Scan:
    """Return the kernel that scans the rows of a row-major operand; ``count`` results are stored."""
    shape = (outer, inner)
    return Scan(
        operands((of, outer * inner)), outputs(*((each.dtype, outer * inner) for each in found.results[:count])), (),
        found.name, shape, found, read(0, shape, of), reverse, 0, contiguous_strides(shape),
    )  # fmt: skip


class MonoidTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize("length", [1, 3, 64, 1001])
    def test_reductions(self, length: int) -> None:
        values = [float((i * 7919) % 101 - 60) / 8 for i in range(3 * length)]
        rows = [values[i * length : (i + 1) * length] for i in range(3)]
        for found, wanted in (
            (FURTHEST, [max(row, key=lambda x: (abs(x), x)) for row in rows]),
            (COUNT, [statistics.fmean(row) for row in rows]),
            (monoid("log_sum_exp", float32), [math.log(sum(map(math.exp, row))) for row in rows]),
            (monoid("moments", float32), [statistics.pvariance(row) * length for row in rows]),
        ):
            kernel = row_kernel(3, length, found, float32)
            self.check(kernel, [values], [wanted], relative=1e-5, absolute=1e-4)

    def test_exclusive_or(self) -> None:
        values = [i * 2654435761 % 1000 for i in range(60)]
        wanted = [[*itertools.accumulate(values[at : at + 20], int.__xor__)] for at in (0, 20, 40)]
        found = monoid("xor", int32)
        self.check(row_kernel(3, 20, found, int32), [values], [[each[-1] for each in wanted]])
        self.check(scan_kernel(3, 20, found, int32), [values], [[*itertools.chain(*wanted)]])

    def test_empty_rows(self) -> None:
        for found, wanted in ((FURTHEST, 0.0), (monoid("log_sum_exp", float32), -INF), (monoid("xor", int32), 0)):
            kernel = row_kernel(2, 0, found, found.states[0])
            self.check(kernel, [[]], [[wanted] * 2])

    def test_infinite_and_missing_exponentials(self) -> None:
        rows = [-INF, -INF, -INF, 0.0, -INF, 1.0, INF, 1.0, 2.0, 1.0, NAN, 3.0]
        wanted = [-INF, math.log(1 + math.e), INF, NAN]
        self.check(row_kernel(4, 3, monoid("log_sum_exp", float32), float32), [rows], [wanted])
        running = [-INF, -INF, -INF, 0.0, 0.0, wanted[1], INF, INF, INF, 1.0, NAN, NAN]
        self.check(scan_kernel(4, 3, monoid("log_sum_exp", float32), float32), [rows], [running])

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("length", [1, 7, 300])
    def test_scans_in_order(self, length: int, reverse: bool) -> None:
        factors = [(i * 37 % 9 - 4) / 4 for i in range(2 * length)]
        wanted: list[list[float]] = [[0.0] * (2 * length), [0.0] * (2 * length)]
        for row in range(2):
            x, product = 0.0, 1.0
            for place in range(length - 1, -1, -1) if reverse else range(length):
                at = row * length + place
                x, product = x * factors[at] + place, product * factors[at]
                wanted[0][at], wanted[1][at] = x, product
        kernel = scan_kernel(2, length, MAPS, float32, 2, reverse)
        self.check(kernel, [factors], wanted, relative=1e-5, absolute=1e-4)

    def test_long_scans(self) -> None:
        size = self.large_elements // 4
        values = [float(i * 7919 % 64 - 32) / 16 for i in range(size)]
        wanted = values[:1]
        for value in values[1:]:
            wanted.append(max(wanted[-1], value, key=lambda x: (abs(x), x)))
        self.check(scan_kernel(1, size, FURTHEST, float32), [values], [wanted])
        means = [total / (i + 1) for i, total in enumerate(itertools.accumulate(values))]
        self.check(scan_kernel(1, size, COUNT, float32), [values], [means], relative=1e-4, absolute=1e-4)

    def test_long_rows(self) -> None:
        size = self.large_elements
        values = [float(i * 7919 % 64 - 32) / 16 for i in range(size)]
        wanted = max(values, key=lambda x: (abs(x), x))
        self.check(row_kernel(1, size, FURTHEST, float32), [values], [[wanted]])
        self.check(row_kernel(1, size, COUNT, float32), [values], [[statistics.fmean(values)]], absolute=1e-5)

    @pytest.mark.parametrize("count", [5, 200])
    def test_scatters(self, count: int) -> None:
        self.needs(int64)
        index, values = [i * i % 7 for i in range(count)], [float(i * 37 % 41 - 20) for i in range(count)]
        for found, of, combine in (
            (FURTHEST, float32, lambda a, b: max((a, b), key=lambda x: (abs(x), x))),
            (monoid("xor", int32), int32, lambda a, b: int(a) ^ int(b)),
        ):
            convert = int if of is int32 else float
            given = [convert(each) for each in values]
            wanted = [convert(0)] * 9
            for at, value in zip(index, given, strict=True):
                wanted[at] = combine(wanted[at], value)
            kernel = Scatter(
                operands((of, 9), (int64, count), (of, count)), outputs((of, 9, 0)), (), found.name, (), (count,),
                load(1, 0, (1,), int64), load(2, 0, (1,), of), found,
            )  # fmt: skip
            self.check(kernel, [[convert(0)] * 9, index, given], [wanted])

    def test_rows_refuse_what_depends_on_the_order(self) -> None:
        with pytest.raises(ValueError, match="'maps' depends on it"):
            Reduction(MAPS, read(0, (2, 2), float32))
