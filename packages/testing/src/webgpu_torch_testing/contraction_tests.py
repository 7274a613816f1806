"""Contractions: transpositions, batches, types, epilogues, empty sums, computed loads."""

from __future__ import annotations

import math
from typing import Any

import pytest
from webgpu_torch_core.ir.dtypes import (
    bfloat16,
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
from webgpu_torch_core.ir.expression import Expression, accumulator, apply, cast, coordinate, load_at, parameter, select
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import contiguous_strides

from .base import Conformance
from .building import operands, outputs, read, write

INF, NAN = math.inf, math.nan


def matrix_product(
    m: int, n: int, k: int, kind: dtype, left: tuple[int, int, int] | None = None,
    right: tuple[int, int, int] | None = None,
    result: dtype | None = None,
) -> Contraction:  # fmt: skip
    """Return ``out[m, n]`` of [m, k] and [n, k] operands, row-major or with (offset, row's stride, stride over k)."""
    total, result = compute_dtype(kind), result or kind
    left, right = left or (0, k, 1), right or (0, k, 1)
    return Contraction(
        operands((kind, m * k), (kind, n * k)), outputs((result, m * n)), (), f"product {m}x{n}x{k} {kind}", (),
        (m,), (n,), (k,),
        read(0, (), kind, (left[1], 0, left[2]), left[0]), read(1, (), kind, (0, right[1], right[2]), right[0]), total,
        (write(0, (m, n), accumulator(total), result),),
    )  # fmt: skip


def product(a: list[Any], b: list[Any], m: int, n: int, k: int) -> list[Any]:
    """Return [m, k] times the transpose of [n, k]."""
    return [sum(a[i * k + p] * b[j * k + p] for p in range(k)) for i in range(m) for j in range(n)]


def small(count: int, factor: int = 7, modulus: int = 11) -> list[float]:
    """Return numbers whose products and sums are exact in every floating type's accumulator."""
    return [float(i * factor % modulus - modulus // 2) for i in range(count)]


class ContractionTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize(
        ("m", "n", "k"),
        [
            (1, 1, 1),
            (2, 3, 4),
            (5, 7, 3),
            (1, 9, 33),
            (9, 1, 33),
            (33, 17, 40),
            (64, 64, 16),
            (70, 65, 19),
            (3, 130, 129),
            (1, 1, 3000),
        ],
    )
    def test_sizes(self, m: int, n: int, k: int) -> None:
        a, b = small(m * k), small(n * k, 5, 13)
        self.check(matrix_product(m, n, k, float32), [a, b], [product(a, b, m, n, k)])

    @pytest.mark.parametrize(("m", "n", "k"), [(4, 6, 5), (37, 20, 18), (65, 3, 66)])
    def test_transpositions(self, m: int, n: int, k: int) -> None:
        a, b = small(m * k), small(n * k, 5, 13)
        a_turned = [a[i * k + p] for p in range(k) for i in range(m)]
        b_turned = [b[j * k + p] for p in range(k) for j in range(n)]
        wanted = [product(a, b, m, n, k)]
        self.check(matrix_product(m, n, k, float32, (0, 1, m)), [a_turned, b], wanted)
        self.check(matrix_product(m, n, k, float32, None, (0, 1, n)), [a, b_turned], wanted)
        self.check(matrix_product(m, n, k, float32, (0, 1, m), (0, 1, n)), [a_turned, b_turned], wanted)
        self.check(matrix_product(m, n, k, float32, (m * k - 1, -k, -1)), [a[::-1], b], wanted)

    @pytest.mark.parametrize("kind", [float16, bfloat16, float64, int8, uint8, int32, int64], ids=str)
    def test_types(self, kind: dtype) -> None:
        self.needs(kind)
        m, n, k = 9, 10, 35
        a, b = small(m * k), small(n * k, 5, 13)
        if kind.category == 1:
            a, b = [abs(int(each)) for each in a], [abs(int(each)) for each in b]
        total = compute_dtype(kind)
        exact = product(a, b, m, n, k)
        if total is not int32 or kind is int32:
            self.check(
                matrix_product(m, n, k, kind), [a, b], [exact] if kind is not bfloat16 and kind is not float16 else None
            )
        if total in self.target.dtypes:
            self.check(matrix_product(m, n, k, kind, result=total), [a, b], [exact])

    def test_products_of_wide_integers(self) -> None:
        self.needs(int64)
        self.check(matrix_product(1, 1, 3, int64), [[2**33, -1, 5], [2**29, 7, 2**40]], [[2**62 - 7 + 5 * 2**40]])
        self.check(matrix_product(1, 1, 2, int32), [[2**31 - 1, 2], [2, 1]], [[0]])

    def test_halves_accumulate_in_float32(self) -> None:
        self.needs(float16)
        self.check(matrix_product(1, 1, 4096, float16), [[1.0] * 4096, [1.0] * 4096], [[4096.0]])

    def test_infinities_and_nan(self) -> None:
        a, b = [INF, 1.0, NAN, 1.0, 0.0, 2.0, INF, -INF], [1.0, 1.0, 0.5, 0.0]
        self.check(matrix_product(4, 2, 2, float32), [a, b], [[INF, INF, NAN, NAN, 2.0, 0.0, NAN, NAN]])

    def test_batches(self) -> None:
        m, n, k = 5, 4, 6
        shape = (2, 3, m, n, k)
        left = read(0, shape, float32, (3 * m * k, m * k, k, 0, 1))
        # The right operand is the same for both entries of the first batch dimension.
        right = read(1, shape, float32, (0, n * k, 0, k, 1))
        kernel = Contraction(
            operands((float32, 6 * m * k), (float32, 3 * n * k)), outputs((float32, 6 * m * n)), (), "batches", (2, 3),
            (m,), (n,),
            (k,), left, right, float32, (write(0, (2, 3, m, n), accumulator(float32), float32),),
        )  # fmt: skip
        a, b = small(6 * m * k), small(3 * n * k, 5, 13)
        wanted: list[float] = []
        for batch in range(6):
            wanted += product(a[batch * m * k :], b[batch % 3 * n * k :], m, n, k)
        self.check(kernel, [a, b], [wanted])

    def test_epilogue(self) -> None:
        m, n, k = 6, 5, 7
        value = accumulator(float32) * parameter(0, float32) + read(2, (m, n), float32, (0, 1))
        kernel = matrix_product(m, n, k, float32).replace(
            operands=operands((float32, m * k), (float32, n * k), (float32, n)),
            outputs=outputs((float32, m * n), (float32, m * n)),
            parameters=(float32,),
            stores=(
                write(0, (m, n), apply("maximum", value, 0.0), float32, (1, m)),
                write(1, (m, n), value + cast(coordinate(0) * 100 + coordinate(1), float32), float32),
            ),
        )
        a, b, bias = small(m * k), small(n * k, 5, 13), [float(j) for j in range(n)]
        exact = product(a, b, m, n, k)
        plain = [0.5 * exact[i * n + j] + bias[j] for i in range(m) for j in range(n)]
        turned = [max(plain[i * n + j], 0.0) for j in range(n) for i in range(m)]
        shifted = [plain[i * n + j] + 100 * i + j for i in range(m) for j in range(n)]
        self.check(kernel, [a, b, bias], [turned, shifted], [0.5])

    @pytest.mark.parametrize("kind", [float32, float16, int32], ids=str)
    def test_accumulating_in_place(self, kind: dtype) -> None:
        self.needs(kind)
        m, n, k = 3, 5, 4
        wide = compute_dtype(kind)
        kernel = matrix_product(m, n, k, kind).replace(
            operands=operands((kind, m * k), (kind, n * k), (kind, m * n)),
            outputs=outputs((kind, m * n, 2)),
            stores=(write(0, (m, n), accumulator(wide) + read(2, (m, n), kind) * 2, kind),),
        )
        a, b, c = small(m * k), small(n * k, 5, 13), [float(i) for i in range(m * n)]
        if kind is int32:
            a, b, c = ([int(each) for each in part] for part in (a, b, c))
        wanted = [each + 2 * old for each, old in zip(product(a, b, m, n, k), c, strict=True)]
        self.check(kernel, [a, b, c], [wanted])

    def test_empty_sum(self) -> None:
        kernel = matrix_product(2, 3, 0, float32)
        self.check(kernel, [[], []], [[0.0] * 6])
        shifted = kernel.replace(stores=(write(0, (2, 3), accumulator(float32) + 1.5, float32),))
        self.check(shifted, [[], []], [[1.5] * 6])

    def test_groups_without_dimensions(self) -> None:
        k = 50
        a, b = small(k), small(k, 5, 13)
        dot = Contraction(
            operands((float32, k), (float32, k)), outputs((float32, 1)), (), "dot", (), (), (), (k,),
            read(0, (k,), float32),
            read(1, (k,), float32), float32, (write(0, (), accumulator(float32), float32),),
        )  # fmt: skip
        self.check(dot, [a, b], [product(a, b, 1, 1, k)])
        outer = Contraction(
            operands((float32, 4), (float32, 3)), outputs((float32, 12)), (), "outer", (), (4,), (3,), (),
            read(0, (4, 3), float32, (1, 0)), read(1, (4, 3), float32, (0, 1)), float32,
            (write(0, (4, 3), accumulator(float32), float32),),
        )  # fmt: skip
        self.check(outer, [a[:4], b[:3]], [[x * y for x in a[:4] for y in b[:3]]])

    def test_groups_of_several_dimensions(self) -> None:
        # out[a, b, c] = sum over p, q of left[a, b, p, q] * right[q, p, c]
        domain_left, domain_right = (12, 6, 0, 3, 1), (0, 0, 1, 4, 8)
        kernel = Contraction(
            operands((float32, 48), (float32, 24)), outputs((float32, 32)), (), "tensordot", (), (4, 2), (4,), (2, 3),
            read(0, (), float32, domain_left), read(1, (), float32, domain_right), float32,
            (write(0, (4, 2, 4), accumulator(float32), float32),),
        )  # fmt: skip
        x, y = small(48), small(24, 5, 13)
        wanted = [
            sum(x[12 * a + 6 * b + 3 * p + q] * y[8 * q + 4 * p + c] for p in range(2) for q in range(3))
            for a in range(4) for b in range(2) for c in range(4)
        ]  # fmt: skip
        self.check(kernel, [x, y], [wanted])

    def test_convolution_with_padding(self) -> None:
        # 2 images, 3 channels of 5 x 4, 6 filters of 3 x 3, padding 1, stride 2: computed, guarded loads.
        batch, channels, height, width, filters = 2, 3, 5, 4, 6
        out_height, out_width = 3, 2
        y = coordinate(1) * 2 + coordinate(5) - 1
        x = coordinate(2) * 2 + coordinate(6) - 1
        inside = within(y, height) & within(x, width)
        place = ((coordinate(0) * channels + coordinate(4)) * height + clamp(y, height)) * width + clamp(x, width)
        left = select(inside, load_at(0, place, float32), 0.0)
        right = read(1, (), float32, (0, 0, 0, channels * 9, 9, 3, 1))
        stored = (filters * out_height * out_width, out_width, 1, out_height * out_width)
        kernel = Contraction(
            operands((float32, batch * channels * height * width), (float32, filters * channels * 9)),
            outputs((float32, batch * filters * out_height * out_width)), (), "convolution", (),
            (batch, out_height, out_width),
            (filters,), (channels, 3, 3), left, right, float32,
            (write(0, (), accumulator(float32), float32, stored),),
        )  # fmt: skip
        image, weights = small(batch * channels * height * width), small(filters * channels * 9, 5, 13)

        def pixel(b: int, c: int, i: int, j: int) -> float:
            return image[((b * channels + c) * height + i) * width + j] if 0 <= i < height and 0 <= j < width else 0.0

        wanted = [
            sum(
                pixel(b, c, 2 * i + p - 1, 2 * j + q - 1) * weights[((f * channels + c) * 3 + p) * 3 + q]
                for c in range(channels) for p in range(3) for q in range(3)
            )
            for b in range(batch) for f in range(filters) for i in range(out_height) for j in range(out_width)
        ]  # fmt: skip
        self.check(kernel, [image, weights], [wanted])

    def test_computed_sides(self) -> None:
        # Prologues: both sides are expressions of several loads.
        m, n, k = 8, 6, 20
        left = apply("maximum", read(0, (), float32, (k, 0, 1)), 0.0) + read(2, (), float32, (1, 0, 0))
        kernel = matrix_product(m, n, k, float32).replace(
            operands=operands((float32, m * k), (float32, n * k), (float32, m)),
            left=left,
            right=cast(coordinate(2), float32) - read(1, (), float32, (0, k, 1)),
        )
        a, b, c = small(m * k), small(n * k, 5, 13), [float(i) for i in range(m)]
        wanted = [
            sum((max(a[i * k + p], 0.0) + c[i]) * (p - b[j * k + p]) for p in range(k))
            for i in range(m)
            for j in range(n)
        ]
        self.check(kernel, [a, b, c], [wanted])

    def test_mixed_storage(self) -> None:
        # 8-bit weights under 32-bit activations.
        self.needs(int8)
        m, n, k = 4, 9, 12
        kernel = matrix_product(m, n, k, float32).replace(
            operands=operands((float32, m * k), (int8, n * k)),
            right=cast(read(1, (), int8, (0, k, 1)), float32) * 0.5,
        )
        a, b = small(m * k), [int(each) for each in small(n * k, 5, 13)]
        self.check(kernel, [a, b], [[each / 2 for each in product(a, b, m, n, k)]])

    def test_strided_output(self) -> None:
        m, n, k = 4, 3, 5
        kernel = matrix_product(m, n, k, float32).replace(
            operands=operands((float32, m * k), (float32, n * k), (float32, 40)),
            outputs=outputs((float32, 40, 2)),
            stores=(write(0, (m, n), accumulator(float32), float32, (contiguous_strides((4, 9))[0], 2), 1),),
        )
        a, b = small(m * k), small(n * k, 5, 13)
        wanted = [-1.0] * 40
        for index, value in enumerate(product(a, b, m, n, k)):
            wanted[1 + index // n * 9 + index % n * 2] = value
        self.check(kernel, [a, b, [-1.0] * 40], [wanted])


def within(x: Expression, size: int) -> Expression:
    """Return whether an index lies in a dimension."""
    return (x >= 0) & (x < size)


def clamp(x: Expression, size: int) -> Expression:
    """Return the nearest valid index."""
    return apply("minimum", apply("maximum", x, 0), size - 1)
