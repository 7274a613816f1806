"""Pointwise kernels: types, conversions, strides, several stores, gathers, parameters, constants."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from webgpu_torch_core.ir.dtypes import (
    bfloat16,
    bool_,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from webgpu_torch_core.ir.expression import Expression, binary, cast, constant, coordinate, load, parameter, select
from webgpu_torch_core.ir.kernels import Pointwise, Store
from webgpu_torch_core.ir.layouts import contiguous_strides

from .base import Conformance
from .building import INTEGERS, STORAGE, elementwise, operands, outputs, read, read_at, write
from .running import run_kernel

INF, NAN = math.inf, math.nan


def samples(kind: dtype) -> list[Any]:
    """Return 15 (an odd number of) values a type holds exactly, its extremes among them."""
    if kind is bool_:
        return [True, False, False, True, True, False, True] * 2 + [True]
    if kind.category == 1:
        low, high = kind.minimum, kind.maximum
        return [0, 1, high, low, 2, 3, high - 1, low + 1, 5, 100, 7, 64, 127, high // 2, 9]
    return [0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -2.5, 3.0, 96.0, -128.0, 0.25, kind.maximum, kind.minimum, 7.0]


class PointwiseTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize("kind", STORAGE, ids=str)
    def test_copy(self, kind: dtype) -> None:
        values = samples(kind)
        kernel = Pointwise(
            operands((kind, 15)), outputs((kind, 15)), (), "copy", (15,), (Store(0, 0, (1,), load(0, 0, (1,), kind)),)
        )
        self.check(kernel, [values], [values])

    @pytest.mark.parametrize("kind", STORAGE, ids=str)
    def test_flip_and_transpose_and_offset(self, kind: dtype) -> None:
        self.needs(kind)
        values = samples(kind)
        stores = (
            write(0, (15,), read(0, (15,), kind, (-1,), 14), kind),
            Store(1, 14, (-1,), load(0, 0, (1,), kind)),
        )
        kernel = Pointwise(operands((kind, 15)), outputs((kind, 15), (kind, 15)), (), "flip", (15,), stores)
        self.check(kernel, [values], [values[::-1], values[::-1]])
        transpose = Pointwise(
            operands((kind, 15)), outputs((kind, 12)), (), "transpose", (4, 3),
            (write(0, (4, 3), read(0, (4, 3), kind, (1, 5), 1), kind),),
        )  # fmt: skip
        self.check(transpose, [values], [[values[1 + i + 5 * j] for i in range(4) for j in range(3)]])

    @pytest.mark.parametrize("source", STORAGE, ids=str)
    def test_conversions(self, source: dtype) -> None:
        self.needs(source)
        if source is bool_:
            values: list[Any] = [True, False, True]
        elif source.category == 2:
            values = [0.0, -0.0, 1.0, 2.5, 3.5, 100.0, 0.5, 0.25, 126.5]
        else:
            values = [0, 1, 2, 3, 100, 127]
        for target in STORAGE:
            if target in self.target.dtypes:
                size = len(values)
                kernel = elementwise((size,), (source,), lambda x: x, target, name=f"{source} to {target}")
                wanted = [
                    bool(each) if target is bool_ else float(each) if target.category == 2 else int(each)
                    for each in values
                ]
                self.check(kernel, [values], [wanted], relative=0.0, absolute=0.0)

    @pytest.mark.parametrize(
        ("source", "target", "values", "expected"),
        [
            (int32, int8, [300, -1, 128, -129], [44, -1, -128, 127]),
            (int32, uint8, [300, -1, 256, 511], [44, 255, 0, 255]),
            (int32, int16, [70000, -40000, 32768], [4464, 25536, -32768]),
            (int32, uint16, [70000, -1, 65536], [4464, 65535, 0]),
            (uint16, int32, [65535, 32768, 1], [65535, 32768, 1]),
            (uint16, int16, [65535, 32768, 1], [-1, -32768, 1]),
            (uint32, float32, [2**32 - 1, 2**31, 3], [4294967296.0, 2147483648.0, 3.0]),
            (uint32, int64, [2**32 - 1, 2**31, 3], [2**32 - 1, 2**31, 3]),
            (int64, uint32, [-1, 2**32 + 5, 2**31], [2**32 - 1, 5, 2**31]),
            (float32, uint16, [65535.9, -1.5, 2.9], [65535, 65535, 2]),
            (int64, uint64, [-1, 2**63 - 1, 5], [2**64 - 1, 2**63 - 1, 5]),
            (uint64, int64, [2**64 - 1, 2**63, 5], [-1, -(2**63), 5]),
            (int64, int32, [2**32 + 5, -(2**31) - 1, 2**40], [5, 2**31 - 1, 0]),
            (int32, int64, [-1, 2**31 - 1, -(2**31)], [-1, 2**31 - 1, -(2**31)]),
            (float32, int32, [2.9, -2.9, -0.5, 1e9], [2, -2, 0, 1000000000]),
            (float32, int64, [1e12, -1e12, 2.9, -2.9], [999999995904, -999999995904, 2, -2]),
            (int64, float32, [2**40 + 1, -(2**40), 2**24 + 1, 2**53 + 1], [2.0**40, -(2.0**40), 2.0**24, 2.0**53]),
            (int32, float32, [2**24 + 1, 2**24 + 3, -(2**31)], [16777216.0, 16777220.0, -2147483648.0]),
            (float32, bool_, [0.5, -0.0, NAN, INF, 0.0], [True, False, True, True, False]),
            (int64, bool_, [2**32, 0, -1], [True, False, True]),
            (float32, float16, [2049.0, 2051.0, 65519.0, 65520.0, -1e9, NAN, 6e-8],
            [2048.0, 2052.0, 65504.0, INF, -INF, NAN, 2**-24]),
            (float32, bfloat16, [257.0, 259.0, 3.4e38, -INF, NAN], [256.0, 260.0, INF, -INF, NAN]),
            (float64, float32, [1 + 2**-30, 1e300, 1e-300], [1.0, INF, 0.0]),
            (float32, float64, [0.1, INF], [0.10000000149011612, INF]),
        ],
        ids=lambda value: value.name if isinstance(value, dtype) else "",
    )  # fmt: skip
    def test_rounding_and_wrapping(self, source: dtype, target: dtype, values: list[Any], expected: list[Any]) -> None:
        kernel = elementwise((len(values),), (source,), lambda x: x, target, name=f"{source} to {target}")
        self.check(kernel, [values], [expected], relative=0.0, absolute=0.0)

    @pytest.mark.parametrize("kind", INTEGERS, ids=str)
    def test_integers_wrap(self, kind: dtype) -> None:
        self.needs(kind)
        values, others = samples(kind), samples(kind)[::-1]
        kernel = elementwise((15,), (kind, kind), lambda x, y: x * y + x - 1, kind, name="wrap")
        size = 1 << kind.bits
        exact = [(x * y + x - 1) % size for x, y in zip(values, others, strict=True)]
        self.check(kernel, [values, others], [[each - size if each > kind.maximum else each for each in exact]])

    @pytest.mark.parametrize("kind", [float16, bfloat16, float32, float64], ids=str)
    def test_arithmetic(self, kind: dtype) -> None:
        self.needs(kind)
        values, others = [1.5, -2.0, 0.25, INF, NAN, 3.0], [2.0, 4.0, -8.0, 1.0, 1.0, 0.0]
        kernel = elementwise((6,), (kind, kind), lambda x, y: x * y + x / (y * y + 1.0) - 0.5, kind)
        exact = [x * y + x / (y * y + 1) - 0.5 if x < INF else x for x, y in zip(values, others, strict=True)]
        self.check(kernel, [values, others], [exact])

    def test_ranks_from_zero_to_six(self) -> None:
        for shape in ((), (1,), (5,), (2, 3), (2, 1, 3), (2, 3, 2, 2), (2, 1, 3, 2, 2), (2, 2, 2, 2, 2, 2)):
            kernel = elementwise(
                shape, (float32, float32), lambda x, y: x - y * 2.0, float32, name=f"rank {len(shape)}"
            )
            size = kernel.elements()
            self.check(kernel, [[float(i) for i in range(size)], [1.0] * size], [[i - 2.0 for i in range(size)]])

    def test_broadcasting(self) -> None:
        shape = (3, 4, 5)
        parts = (
            read(0, shape, float32, (1, 0, 0)),
            read(1, shape, float32, (0, 5, 1)),
            read(2, shape, float32, (0, 0, 0), 2),
        )
        kernel = Pointwise(
            operands((float32, 3), (float32, 20), (float32, 3)), outputs((float32, 60)), (), "broadcast", shape,
            (write(0, shape, parts[0] + parts[1] * parts[2], float32),),
        )  # fmt: skip
        columns = [10.0, 20.0, 30.0], [float(i) for i in range(20)], [9.0, 9.0, 2.0]
        wanted = [columns[0][i] + columns[1][5 * j + k] * 2.0 for i in range(3) for j in range(4) for k in range(5)]
        self.check(kernel, columns, [wanted])

    @pytest.mark.parametrize("kind", STORAGE, ids=str)
    def test_strided_store_in_place(self, kind: dtype) -> None:
        self.needs(kind)
        values, region = [samples(kind)[i % 15] for i in range(41)], samples(kind)[:12]
        # A region of 3 x 4 elements, none of them neighbours: every other element must stay.
        stores = (Store(0, 3, (11, 2), load(1, 0, (4, 1), kind)),)
        kernel = Pointwise(operands((kind, 41), (kind, 12)), outputs((kind, 41, 0)), (), "region", (3, 4), stores)
        wanted = list(values)
        for i in range(3):
            for j in range(4):
                wanted[3 + 11 * i + 2 * j] = region[4 * i + j]
        self.check(kernel, [values, region], [wanted])

    @pytest.mark.parametrize("kind", STORAGE, ids=str)
    def test_update_in_place(self, kind: dtype) -> None:
        self.needs(kind)
        values = samples(kind)
        change = read(0, (15,), kind)
        value = ~change if kind is bool_ else change + change
        kernel = Pointwise(
            operands((kind, 15)), outputs((kind, 15, 0)), (), "double", (15,), (write(0, (15,), value, kind),)
        )
        self.check(kernel, [values])

    @pytest.mark.parametrize("kind", [float32, int8, int64, bool_], ids=str)
    def test_all_values_before_any_store(self, kind: dtype) -> None:
        self.needs(kind)
        a, b = samples(kind), samples(kind)[::-1]
        loads = [load(index, 0, (1,), kind) for index in (0, 1)]
        stores = (Store(0, 0, (1,), loads[1]), Store(1, 0, (1,), loads[0]), Store(2, 0, (1,), loads[0]))
        kernel = Pointwise(
            operands((kind, 15), (kind, 15)),
            outputs((kind, 15, 0), (kind, 15, 1), (kind, 15)),
            (),
            "swap",
            (15,),
            stores,
        )
        self.check(kernel, [a, b], [b, a, a])

    def test_outputs_of_different_types(self) -> None:
        x = read(0, (9,), float32)
        kinds = [kind for kind in STORAGE if kind in self.target.dtypes][: max(self.target.maximum_bindings - 1, 1)]
        kernel = Pointwise(
            operands((float32, 9)), outputs(*((kind, 9) for kind in kinds)), (), "types", (9,),
            tuple(write(index, (9,), x, kind) for index, kind in enumerate(kinds)),
        )  # fmt: skip
        values = [float(i) for i in range(9)]
        self.check(kernel, [values], [[bool(v) if kind is bool_ else v for v in values] for kind in kinds])

    def test_many_operands(self) -> None:
        count = min(self.target.maximum_bindings - 1, 7)
        kernel = elementwise((10,), (float32,) * count, lambda *loads: sum(loads, constant(0.5, float32)), float32)
        columns = [[float(i * j) for i in range(10)] for j in range(count)]
        self.check(kernel, columns, [[0.5 + sum(column[i] for column in columns) for i in range(10)]])

    def test_one_operand_read_in_several_ways(self) -> None:
        shape = (4, 4)
        value = read(0, shape, float32) + read(0, shape, float32, (1, 4)) * read(0, shape, float32, (0, 0), 5)
        kernel = Pointwise(
            operands((float32, 16)), outputs((float32, 16)), (), "symmetric", shape, (write(0, shape, value, float32),)
        )
        self.check(
            kernel,
            [[float(i) for i in range(16)]],
            [[4.0 * i + j + 5.0 * (4 * j + i) for i in range(4) for j in range(4)]],
        )

    @pytest.mark.parametrize(
        ("kind", "result", "numbers"),
        [
            (float32, float32, [0.5, -3.25, INF, NAN]),
            (float64, float64, [0.1, 1e300]),
            (int32, int32, [5, -7, 2**31 - 1]),
            (int64, int64, [5, -7, 2**40 + 3]),
            (uint32, int32, [5, 2**32 - 1]),
            (bool_, bool_, [True, False]),
        ],
        ids=lambda value: value.name if isinstance(value, dtype) else "",
    )
    def test_parameters(self, kind: dtype, result: dtype, numbers: list[Any]) -> None:
        self.needs(result)
        # Two parameters, so that their places count; the same kernel with new numbers must not keep the old ones.
        value = select(read(0, (4,), bool_), cast(parameter(0, kind), result), cast(parameter(1, kind), result))
        kernel = Pointwise(
            operands((bool_, 4)),
            outputs((result, 4)),
            (kind, kind),
            "parameters",
            (4,),
            (write(0, (4,), value, result),),
        )
        for first, second in itertools.pairwise(numbers):
            wanted = [first, second, second, first]
            if kind is uint32:
                wanted = [each - 2**32 if each >= 2**31 else each for each in wanted]
            self.check(kernel, [[True, False, False, True]], [wanted], [first, second])

    @pytest.mark.parametrize("kind", STORAGE, ids=str)
    @pytest.mark.parametrize("index_kind", [int32, int64], ids=str)
    def test_gather(self, kind: dtype, index_kind: dtype) -> None:
        self.needs(kind, index_kind)
        values, index = samples(kind), [14, 0, 0, 7, 3, 14, 1]
        kernel = Pointwise(
            operands((kind, 15), (index_kind, 7)), outputs((kind, 7)), (), "gather", (7,),
            (write(0, (7,), read_at(0, read(1, (7,), index_kind), kind), kind),),
        )  # fmt: skip
        self.check(kernel, [values, index], [[values[each] for each in index]])

    def test_gather_at_computed_index(self) -> None:
        at = (coordinate(0) * 3 + coordinate(1)) % 5
        twice = read_at(1, cast(read_at(0, at, int32), int32), float32)
        kernel = Pointwise(
            operands((int32, 5), (float32, 4)),
            outputs((float32, 6)),
            (),
            "computed",
            (2, 3),
            (write(0, (2, 3), twice, float32),),
        )
        index, values = [3, 1, 0, 2, 1], [10.0, 20.0, 30.0, 40.0]
        self.check(kernel, [index, values], [[values[index[i % 5]] for i in range(6)]])

    def test_coordinates(self) -> None:
        shape = (2, 3, 4)
        value = coordinate(0) * 100 + coordinate(1) * 10 + coordinate(2)
        stores = (write(0, shape, value, int32), write(1, shape, value, float32))
        kernel = Pointwise((), outputs((int32, 24), (float32, 24)), (), "coordinates", shape, stores)
        wanted = [100 * i + 10 * j + k for i in range(2) for j in range(3) for k in range(4)]
        self.check(kernel, [], [wanted, wanted])

    def test_constants(self) -> None:
        numbers = [0.0, INF, -INF, NAN, 1e-30, 3.4028234663852886e38, 0.1, -7.0, 16777216.0]
        for kind in (float16, bfloat16, float32, float64):
            if kind in self.target.dtypes:
                for number in numbers:
                    if kind is float32 or kind is float64 or not math.isfinite(number) or abs(number) in (0.0, 7.0):
                        kernel = elementwise(
                            (3,), (), lambda n=number, k=kind: constant(n, k), kind, name=f"constant {number}"
                        )
                        self.check(kernel, [], [[number if kind is float64 else cast_number(number)] * 3])
        for kind in (int32, int64, bool_):
            if kind in self.target.dtypes:
                for whole in (0, 1) if kind is bool_ else (0, -1, kind.minimum, kind.maximum):
                    kernel = elementwise(
                        (3,), (), lambda n=whole, k=kind: constant(n, k), kind, name=f"constant {whole}"
                    )
                    self.check(kernel, [], [[whole] * 3])

    def test_negative_zero_stays_negative(self) -> None:
        def sign_bit(x: Expression) -> Expression:
            from webgpu_torch_core.ir.expression import apply

            return apply("sign_bit", x)

        kernel = elementwise((5,), (float32,), sign_bit, bool_, name="sign bit")
        self.check(kernel, [[-0.0, 0.0, -1.0, 2.0, -INF]], [[True, False, True, False, True]])
        constants = elementwise((1,), (), lambda: sign_bit(constant(-0.0, float32)), bool_, name="sign bit of constant")
        self.check(constants, [], [[True]])

    @pytest.mark.parametrize("kind", STORAGE, ids=str)
    def test_select_and_compare(self, kind: dtype) -> None:
        self.needs(kind)
        values, others = samples(kind), samples(kind)[::-1]
        x, y = read(0, (15,), kind), read(1, (15,), kind)
        chosen = select(binary("equal", x, y), x, y)
        stores = (write(0, (15,), chosen, kind), write(1, (15,), binary("not_equal", x, y), bool_))
        kernel = Pointwise(
            operands((kind, 15), (kind, 15)), outputs((kind, 15), (bool_, 15)), (), "select", (15,), stores
        )
        self.check(kernel, [values, others], [others, [a != b for a, b in zip(values, others, strict=True)]])

    def test_select_ignores_the_other_side(self) -> None:
        x = read(0, (5,), float32)
        kernel = Pointwise(
            operands((float32, 5)), outputs((float32, 5)), (), "guard", (5,),
            (write(0, (5,), select(binary("equal", x, 0.0), -1.0, 1.0 / x), float32),),
        )  # fmt: skip
        self.check(kernel, [[0.0, 2.0, -4.0, INF, NAN]], [[-1.0, 0.5, -0.25, 0.0, NAN]])

    def test_random_and_unsigned_words(self) -> None:
        from webgpu_torch_core.ir.expression import make

        words, ones = [constant(0, uint32)] * 8, [constant(2**32 - 1, uint32)] * 8
        values = [
            make("threefry", (*counter, constant(word, uint32)), None, uint32)
            for counter in (words, ones)
            for word in range(4)
        ]
        kernel = Pointwise(
            (), outputs(*((int32, 1) for _ in values[: self.words()])), (), "threefry", (),
            tuple(write(index, (), value, int32) for index, value in enumerate(values[: self.words()])),
        )  # fmt: skip
        # The known answers of Random123.
        known = [0x531C7E4F, 0x39491EE5, 0x2C855A92, 0x3D6ABF9A, 0xC4189358, 0x1C9CC83A, 0xD5881C67, 0x6A0A89E0]
        self.check(kernel, [], [[each - 2**32 if each >= 2**31 else each] for each in known[: self.words()]])

    def words(self) -> int:
        """Return how many outputs one kernel may have here."""
        return min(8, self.target.maximum_bindings)

    def test_large_domain(self) -> None:
        size = self.large_elements
        x = read(0, (size,), float32)
        stores = (write(0, (size,), x + cast(coordinate(0), float32), float32),)
        kernel = Pointwise(operands((float32, size)), outputs((float32, size, 0)), (), "large", (size,), stores)
        (result,) = run_kernel(self.target, kernel, [[1.0] * size])
        assert result == [i + 1.0 for i in range(size)]

    def test_large_strided_domain(self) -> None:
        rows = self.large_elements // 10
        shape = (rows, 10)
        stores = (write(0, shape, read(0, shape, int32, (1, rows)) - coordinate(1), int32, contiguous_strides(shape)),)
        kernel = Pointwise(
            operands((int32, rows * 10)), outputs((int32, rows * 10)), (), "large transpose", shape, stores
        )
        (result,) = run_kernel(self.target, kernel, [list(range(rows * 10))])
        assert result == [i + rows * j - j for i in range(rows) for j in range(10)]

    def test_narrow_types_share_words(self) -> None:
        # Neighbours written by different coordinates must not overwrite each other, at any length and offset.
        for kind in (int8, uint8, int16, bool_, float16, bfloat16):
            if kind in self.target.dtypes:
                for size, offset in ((1, 0), (2, 1), (3, 2), (5, 3), (6, 1), (257, 3)):
                    values = [i % 2 == 1 if kind is bool_ else i % 100 for i in range(size)]
                    before = [1] * (size + 5)
                    store = Store(0, offset, (1,), load(1, 0, (1,), kind))
                    kernel = Pointwise(
                        operands((kind, size + 5), (kind, size)),
                        outputs((kind, size + 5, 0)),
                        (),
                        f"slice {kind}",
                        (size,),
                        (store,),
                    )
                    self.check(kernel, [before, values], [[1] * offset + values + [1] * (5 - offset)])


def cast_number(number: float) -> float:
    """Return a number as float32 holds it."""
    from webgpu_torch_core.ir.scalar_math import round_to_float32

    return float(round_to_float32(number))
