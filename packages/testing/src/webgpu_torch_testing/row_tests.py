"""Row programs: every reduction, chains of them, stores per row and per element."""

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
    uint8,
)
from webgpu_torch_core.ir.expression import (
    Expression,
    apply,
    binary,
    cast,
    coordinate,
    load,
    parameter,
    reduced,
    select,
)
from webgpu_torch_core.ir.kernels import Reduction, RowProgram
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides, number_of_elements
from webgpu_torch_core.ir.monoids import monoid

from .base import Conformance
from .building import operands, outputs, read, write

INF, NAN = math.inf, math.nan


def reduce_rows(
    outer: Shape, inner: Shape, kind: str, value: Expression, source: dtype, total: dtype, result: dtype
) -> RowProgram:
    """Return the kernel that reduces a row-major operand over its inner dimensions; ``total`` is its result's type."""
    accumulated = value.dtype if kind.startswith("arg") else total
    rows = number_of_elements(outer)
    return RowProgram(
        operands((source, rows * number_of_elements(inner))), outputs((result, rows)), (), f"{kind} {source}",
        outer, inner,
        (Reduction(monoid(kind, accumulated), value),), (write(0, outer, reduced(0, total), result),), (),
    )  # fmt: skip


def exp(x: Expression) -> Expression:
    """Return the exponential."""
    return apply("exp", x)


class RowTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            ("sum", [10.0, -4.0, NAN, INF, 0.5]),
            ("product", [24.0, -16.0, NAN, INF, 0.0]),
            ("maximum", [4.0, 2.0, NAN, INF, 0.5]),
            ("minimum", [1.0, -4.0, NAN, 1.0, 0.0]),
            ("argmaximum", [3, 1, 2, 1, 2]),
            ("argminimum", [0, 0, 2, 0, 0]),
        ],
    )
    @pytest.mark.parametrize("source", [float16, bfloat16, float32, float64], ids=str)
    def test_reductions_of_floats(self, kind: str, expected: list[Any], source: dtype) -> None:
        self.needs(source)
        rows = [1, 2, 3, 4, -4, 2, 2, -4, 1, INF, NAN, -INF, 1, INF, 1, 2, 0, 0, 0.5, 0]
        if kind == "product":
            rows[7] = 1
        position = kind.startswith("arg")
        total = int64 if position else float64 if source is float64 else float32
        self.needs(*((int64,) if position else ()))
        kernel = reduce_rows((5,), (4,), kind, read(0, (5, 4), source), source, total, int64 if position else source)
        self.check(kernel, [[float(each) for each in rows]], [expected])

    @pytest.mark.parametrize("source", [int8, uint8, int32, int64], ids=str)
    def test_reductions_of_integers(self, source: dtype) -> None:
        self.needs(source, int64)
        rows = [3, 1, 2, 3, 100, 101, 7, 7, 0, 0, 0, 5]
        for kind, wanted in (
            ("sum", [9, 215, 5]), ("product", [18, 494900, 0]), ("maximum", [3, 101, 5]), ("minimum", [1, 7, 0]),
            ("argmaximum", [0, 1, 3]), ("argminimum", [1, 2, 0]),
        ):  # fmt: skip
            value = read(0, (3, 4), source)
            kernel = reduce_rows(
                (3,), (4,), kind, value if kind[:3] == "arg" else cast(value, int64), source, int64, int64
            )
            self.check(kernel, [rows], [wanted])

    def test_reductions_of_wide_integers(self) -> None:
        self.needs(int64)
        rows = [2**40, -1, 2**40, 5, -(2**62), -(2**62) - 1, 2**62, 5]
        # The second row passes -2**63 on its way.
        for kind, wanted in (("sum", [2**41 + 4, sum(rows[4:])]), ("maximum", [2**40, 2**62]),
                             ("minimum", [-1, -(2**62) - 1]), ("argmaximum", [0, 2]),
                             ("argminimum", [1, 1])):  # fmt: skip
            self.check(reduce_rows((2,), (4,), kind, read(0, (2, 4), int64), int64, int64, int64), [rows], [wanted])

    def test_any_and_all_and_positions_of_booleans(self) -> None:
        rows = [True, False, False, False, False, False, True, True, True]
        value = read(0, (3, 3), bool_)
        self.check(reduce_rows((3,), (3,), "any", value, bool_, bool_, bool_), [rows], [[True, False, True]])
        self.check(reduce_rows((3,), (3,), "all", value, bool_, bool_, bool_), [rows], [[False, False, True]])
        if int64 in self.target.dtypes:
            self.check(reduce_rows((3,), (3,), "argmaximum", value, bool_, int64, int64), [rows], [[0, 0, 0]])
            self.check(reduce_rows((3,), (3,), "argminimum", value, bool_, int64, int64), [rows], [[1, 0, 0]])

    @pytest.mark.parametrize("length", [1, 2, 31, 64, 65, 255, 257, 1000, 4099])
    def test_lengths(self, length: int) -> None:
        rows = [float((i * 7919) % 101 - 50) for i in range(3 * length)]
        value = read(0, (3, length), float32)
        parts = [rows[i * length : (i + 1) * length] for i in range(3)]
        self.check(
            reduce_rows((3,), (length,), "sum", value, float32, float32, float32), [rows], [list(map(sum, parts))]
        )
        self.check(
            reduce_rows((3,), (length,), "maximum", value, float32, float32, float32), [rows], [list(map(max, parts))]
        )
        if int64 in self.target.dtypes:
            first = [each.index(min(each)) for each in parts]
            self.check(reduce_rows((3,), (length,), "argminimum", value, float32, int64, int64), [rows], [first])

    @pytest.mark.parametrize("rows", [1, 300, 5000])
    def test_many_rows(self, rows: int) -> None:
        values = [float(i % 17) for i in range(rows * 3)]
        wanted = [sum(values[3 * i : 3 * i + 3]) for i in range(rows)]
        self.check(
            reduce_rows((rows,), (3,), "sum", read(0, (rows, 3), float32), float32, float32, float32),
            [values],
            [wanted],
        )

    def test_everything_to_one_number(self) -> None:
        size = self.large_elements
        kernel = reduce_rows((), (size,), "sum", read(0, (size,), float32), float32, float32, float32)
        self.check(kernel, [[1.0] * size], [[float(size)]])
        cube = reduce_rows((), (3, 4, 5), "maximum", read(0, (3, 4, 5), float32), float32, float32, float32)
        self.check(cube, [[float(i * 37 % 60) for i in range(60)]], [[59.0]])

    def test_columns_and_middle_dimensions(self) -> None:
        # Sum over rows of a 5 x 7 matrix, then over the middle dimension of 3 x 4 x 2.
        values = [float(i) for i in range(35)]
        value = read(0, (7, 5), float32, (1, 7))
        kernel = reduce_rows((7,), (5,), "sum", value, float32, float32, float32)
        self.check(kernel, [values], [[sum(values[j::7]) for j in range(7)]])
        middle = reduce_rows((3, 2), (4,), "sum", read(0, (3, 2, 4), float32, (8, 1, 2)), float32, float32, float32)
        self.check(
            middle, [values[:24]], [[sum(8.0 * i + 2 * k + j for k in range(4)) for i in range(3) for j in range(2)]]
        )
        outside = reduce_rows((4,), (3, 2), "argmaximum", read(0, (4, 3, 2), float32, (2, 8, 1)), float32, int64, int64)
        self.check(outside, [[float(each) for each in [*range(8), *range(30, 14, -1)]]], [[2, 2, 2, 2]])

    def test_negative_strides_and_broadcast_rows(self) -> None:
        kernel = reduce_rows((2,), (3,), "argmaximum", read(0, (2, 3), float32, (3, -1), 2), float32, int64, int64)
        self.check(kernel, [[1.0, 2.0, 3.0, 9.0, 8.0, 9.0]], [[0, 0]])
        same = reduce_rows((4,), (3,), "sum", read(0, (4, 3), float32, (0, 0), 1), float32, float32, float32)
        self.check(same.replace(operands=operands((float32, 2))), [[7.0, 2.0]], [[6.0] * 4])

    @pytest.mark.parametrize(("kind", "total", "wanted"), [
        ("sum", float32, 0.0), ("product", float32, 1.0), ("maximum", float32, -INF), ("minimum", float32, INF),
        ("any", bool_, False), ("all", bool_, True), ("sum", int32, 0), ("maximum", int32, -(2**31)),
        ("minimum", int32, 2**31 - 1),
    ])  # fmt: skip
    def test_empty_rows(self, kind: str, total: dtype, wanted: Any) -> None:
        value = read(0, (4, 0), total)
        self.check(reduce_rows((4,), (0,), kind, value, total, total, total), [[]], [[wanted] * 4])

    @pytest.mark.parametrize("source", [float16, bfloat16, float32, float64], ids=str)
    @pytest.mark.parametrize("length", [1, 5, 300])
    def test_softmax(self, source: dtype, length: int) -> None:
        self.needs(source)
        wide = float64 if source is float64 else float32
        shape = (3, length)
        x = read(0, shape, source)
        shifted = exp(x - reduced(0, wide))
        kernel = RowProgram(
            operands((source, 3 * length)), outputs((source, 3 * length, 0), (wide, 3)), (), "softmax", (3,), (length,),
            (Reduction(monoid("maximum", wide), x), Reduction(monoid("sum", wide), shifted)),
            (write(1, (3,), apply("log", reduced(1, wide)) + reduced(0, wide), wide),),
            (write(0, shape, shifted / reduced(1, wide), source),),
        )  # fmt: skip
        rows = [((i * 37) % 64 - 32) / 8 for i in range(3 * length)]
        wanted, sums = [], []
        for i in range(3):
            exps = [math.exp(each) for each in rows[i * length : (i + 1) * length]]
            wanted += [each / sum(exps) for each in exps]
            sums.append(math.log(sum(exps)))
        self.check(kernel, [rows], [wanted, sums])

    def test_softmax_of_masked_rows(self) -> None:
        x = read(0, (2, 3), float32)
        shifted = exp(x - reduced(0, float32))
        kernel = RowProgram(
            operands((float32, 6)), outputs((float32, 6)), (), "masked", (2,), (3,),
            (Reduction(monoid("maximum", float32), x), Reduction(monoid("sum", float32), shifted)), (),
            (write(0, (2, 3), shifted / reduced(1, float32), float32),),
        )  # fmt: skip
        self.check(kernel, [[-INF, 1.0, -INF, -INF, -INF, -INF]], [[0.0, 1.0, 0.0, NAN, NAN, NAN]])

    def test_layer_norm_with_parameters_and_weights(self) -> None:
        shape, length = (2, 3, 40), 40
        x, weight, bias = (
            read(0, shape, float32),
            read(1, shape, float32, (0, 0, 1)),
            read(2, shape, float32, (0, 0, 0)),
        )
        mean = reduced(0, float32) / float(length)
        centred = x - mean
        scale = apply("reciprocal_sqrt", reduced(1, float32) / float(length) + parameter(0, float32))
        kernel = RowProgram(
            operands((float32, 240), (float32, 40), (float32, 1)), outputs((float32, 240), (float32, 6)), (float32,),
            "layer norm",
            (2, 3), (40,), (Reduction(monoid("sum", float32), x), Reduction(monoid("sum", float32), centred * centred)),
            (write(1, (2, 3), mean, float32),), (write(0, shape, centred * scale * weight + bias, float32),),
        )  # fmt: skip
        values = [float(i * 31 % 47) / 4 for i in range(240)]
        weights = [float(i) / 8 for i in range(40)]
        wanted, means = [], []
        for start in range(0, 240, 40):
            row = values[start : start + 40]
            middle = sum(row) / 40
            spread = math.sqrt(sum((each - middle) ** 2 for each in row) / 40 + 0.5)
            wanted += [(each - middle) / spread * w + 2.0 for each, w in zip(row, weights, strict=True)]
            means.append(middle)
        self.check(kernel, [values, weights, [2.0]], [wanted, means], [0.5])

    def test_row_stores_load_over_outer(self) -> None:
        # out[i] = targets[i] - logits[i, target]: a gather in the row's store, strides over the outer dimension only.
        index = cast(load(1, 0, (1,), int64), int32) + coordinate(0) * 4
        kernel = RowProgram(
            operands((float32, 12), (int64, 3), (float32, 3)), outputs((float32, 3, 2)), (), "pick", (3,), (4,),
            (Reduction(monoid("sum", float32), read(0, (3, 4), float32)),),
            (write(0, (3,), reduced(0, float32) - read_flat(0, index) + read(2, (3,), float32), float32),), (),
        )  # fmt: skip
        values = [float(i) for i in range(12)]
        self.check(kernel, [values, [1, 0, 3], [100.0, 200.0, 300.0]], [[105.0, 218.0, 327.0]])

    def test_reductions_masked_by_coordinates(self) -> None:
        shape = (4, 4)
        seen = select(binary("less_equal", coordinate(1), coordinate(0)), read(0, shape, float32), 0.0)
        kernel = RowProgram(
            operands((float32, 16)), outputs((float32, 16)), (), "causal", (4,), (4,),
            (Reduction(monoid("sum", float32), seen),), (),
            (write(0, shape, seen / reduced(0, float32), float32),),
        )  # fmt: skip
        wanted = [1.0 / (i + 1) if j <= i else 0.0 for i in range(4) for j in range(4)]
        self.check(kernel, [[1.0] * 16], [wanted])

    def test_several_reductions_of_different_kinds(self) -> None:
        self.needs(int64)
        x = read(0, (2, 70), float32)
        kinds = [
            ("sum", x, float32),
            ("maximum", x, float32),
            ("argminimum", x, int64),
            ("any", binary("less", x, -9.0), bool_),
        ]
        kernel = RowProgram(
            operands((float32, 140)), outputs((float32, 2), (float32, 2), (int64, 2), (bool_, 2)), (), "several", (2,),
            (70,),
            tuple(Reduction(monoid(kind, value.dtype), value) for kind, value, _ in kinds),
            tuple(write(index, (2,), reduced(index, each[2]), each[2]) for index, each in enumerate(kinds)), (),
        )  # fmt: skip
        values = [float(i * 13 % 19 - (9 if i < 70 else 8)) for i in range(140)]
        rows = values[:70], values[70:]
        wanted = [
            list(map(sum, rows)),
            list(map(max, rows)),
            [row.index(min(row)) for row in rows],
            [min(row) < -9 for row in rows],
        ]
        self.check(kernel, [values], wanted)

    def test_half_sums_accumulate_in_float32(self) -> None:
        self.needs(float16)
        kernel = reduce_rows((1,), (5000,), "sum", read(0, (1, 5000), float16), float16, float32, float16)
        self.check(kernel, [[1.0] * 5000], [[5000.0]])

    def test_elements_stored_in_another_order(self) -> None:
        shape = (3, 5)
        value = read(0, shape, float32) - reduced(0, float32)
        kernel = RowProgram(
            operands((float32, 15)), outputs((float32, 15)), (), "transposed", (3,), (5,),
            (Reduction(monoid("minimum", float32), read(0, shape, float32)),), (),
            (write(0, shape, value, float32, (1, 3)),),
        )  # fmt: skip
        values = [float(i * 7 % 15) for i in range(15)]
        rows = [values[5 * i : 5 * i + 5] for i in range(3)]
        self.check(kernel, [values], [[rows[i][j] - min(rows[i]) for j in range(5) for i in range(3)]])

    def test_row_stores_overwrite_what_elements_read(self) -> None:
        # A running mean is updated in place while the elements still use its old value.
        shape = (3, 70)
        x, old = read(0, shape, float32), read(1, shape, float32, (1, 0))
        mean = reduced(0, float32) / 70.0
        kernel = RowProgram(
            operands((float32, 210), (float32, 3)), outputs((float32, 210, 0), (float32, 3, 1)), (), "running mean",
            (3,), (70,),
            (Reduction(monoid("sum", float32), x),),
            (write(1, (3,), mean * 0.5 + read(1, (3,), float32) * 0.5, float32),), (write(0, shape, x - old, float32),),
        )  # fmt: skip
        values = [float(i // 70 + i % 2) for i in range(210)]
        wanted = [each - 10.0 * (i // 70) for i, each in enumerate(values)]
        self.check(kernel, [values, [0.0, 10.0, 20.0]], [wanted, [0.25, 5.75, 11.25]])

    @pytest.mark.parametrize("kind", [int8, bool_, float16], ids=str)
    def test_narrow_rows(self, kind: dtype) -> None:
        # Rows of three elements do not start at word boundaries.
        self.needs(kind)
        shape = (5, 3)
        values = [i % 2 == 0 if kind is bool_ else i for i in range(15)]
        kernel = RowProgram(
            operands((kind, 15)), outputs((kind, 15), (kind, 5)), (), "narrow", (5,), (3,),
            (Reduction(monoid("any" if kind is bool_ else "maximum", compute_dtype(kind)), read(0, shape, kind)),),
            (write(1, (5,), reduced(0, compute_dtype(kind)), kind),),
            (write(0, shape, read(0, shape, kind), kind, contiguous_strides(shape)),),
        )  # fmt: skip
        wanted = [True] * 5 if kind is bool_ else [3 * i + 2 for i in range(5)]
        self.check(kernel, [values], [values, wanted])


def read_flat(operand: int, index: Expression) -> Expression:
    """Return a float32 at a computed index."""
    from webgpu_torch_core.ir.expression import load_at

    return load_at(operand, index, float32)
