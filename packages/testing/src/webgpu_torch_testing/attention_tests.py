"""Attention, on devices that run it: sizes, layouts, types, bounds, masks, empty rows, several products and sums."""

from __future__ import annotations

import math
from typing import Any

import pytest
from webgpu_torch_core.ir.dtypes import bfloat16, bool_, dtype, float16, float32, int32
from webgpu_torch_core.ir.expression import Expression, accumulator, cast, coordinate, load, parameter, reduced, select
from webgpu_torch_core.ir.kernels import Attention, Product, Store, WeightedSum
from webgpu_torch_core.ir.scalar import exp

from .base import Conformance
from .building import operands, outputs

INF, NAN = math.inf, math.nan


def attention(
    m: int, n: int, k: int, v: int, kind: dtype = float32, batch: int = 1, *, mask: dtype | None = None,
    first: Expression | None = None, last: Expression | None = None, turned: bool = False,
) -> Attention:  # fmt: skip
    """Return the kernel of [batch, m, k] queries, [batch, n, k] keys, [batch, n, v] values and an [m, n] mask.

    Its parameter is the scale; its second result is the logarithm of the sum of the scores' exponentials. ``turned``: keys
    lie as [batch, k, n], values as [batch, v, n].
    """
    keys = (k * n, 0, n, 0, 1) if turned else (k * n, 0, 1, 0, k)
    values = (v * n, 0, 0, n, 1) if turned else (v * n, 0, 0, 1, v)
    inputs = [(kind, batch * m * k), (kind, batch * n * k), (kind, batch * n * v)]
    score: Any = reduced(0, float32) * parameter(0, float32)
    if mask is not None:
        inputs.append((mask, m * n))
        found = load(3, 0, (0, n, 0, 0, 1), mask)
        score = select(found, score, -INF) if mask is bool_ else score + cast(found, float32)
    sides = load(0, 0, (m * k, k, 1, 0, 0), kind), load(1, 0, keys, kind)
    store = Store(0, 0, (m * v, v, 0, 1), cast(accumulator(float32), kind))
    return Attention(
        operands(*inputs), outputs((kind, batch * m * v), (float32, batch * m)), (float32,), f"attention {m}x{n}x{k}x{v} {kind}",
        (batch,), (m,), (k,), (v,), (n,), (Product(cast(sides[0], float32), cast(sides[1], float32), "k"),), first, last,
        score, (WeightedSum(accumulator(float32), cast(load(2, 0, values, kind), float32), "v", store),),
        (Store(1, 0, (m, 1), accumulator(float32)),),
    )  # fmt: skip


def derivative(m: int, n: int, k: int, v: int) -> Attention:
    """Return a kernel of two products, [m, k] by [n, k] and [m, v] by [n, v], and two sums, of [n, k] and of [n, v]."""
    weight = exp(reduced(0, float32) * 0.1 - load(4, 0, (0, 1), float32))
    sides = [
        load(0, 0, (0, k, 1, 0, 0), float32), load(1, 0, (0, 0, 1, 0, k), float32),
        load(2, 0, (0, v, 0, 1, 0), float32), load(3, 0, (0, 0, 0, 1, v), float32),
    ]  # fmt: skip
    sums = (
        WeightedSum(weight * reduced(1, float32), sides[1], "k", Store(0, 0, (0, k, 1, 0), accumulator(float32))),
        WeightedSum(weight, sides[3], "v", Store(1, 0, (0, v, 0, 1), accumulator(float32))),
    )
    return Attention(
        operands((float32, m * k), (float32, n * k), (float32, m * v), (float32, n * v), (float32, m)),
        outputs((float32, m * k), (float32, m * v)), (), f"derivative {m}x{n}x{k}x{v}", (1,), (m,), (k,), (v,), (n,),
        (Product(sides[0], sides[1], "k"), Product(sides[2], sides[3], "v")), None, None, None, sums, (),
    )  # fmt: skip


def numbers(count: int, factor: int) -> list[float]:
    """Return numbers between -1 and 1."""
    return [(each * factor % 37 - 18) / 18 for each in range(count)]


class AttentionTests(Conformance):
    """See the module."""

    def needs_attention(self) -> None:
        """Skip the test where the device has no kernels of the form."""
        if Attention not in self.target.forms:
            pytest.skip(f"{self.target.name} has no kernels of the form")

    def attend(self, kernel: Attention, *changes: tuple[int, int, float | bool]) -> list[list[float]]:
        """Check a kernel over numbers, some (operand, place, value) changed; return the results."""
        self.needs_attention()
        given: list[list[Any]] = [numbers(each.numel, 5 + 2 * place) for place, each in enumerate(kernel.operands)]
        if len(given) > 3 and kernel.operands[3].dtype is bool_:
            given[3] = [each > -0.5 for each in given[3]]
        for operand, place, value in changes:
            given[operand][place] = value
        return self.check(kernel, given, parameters=(0.7,) if kernel.parameters else ())

    @pytest.mark.parametrize(
        ("m", "n", "k", "v"),
        [(1, 1, 1, 1), (3, 5, 4, 2), (2, 70, 8, 8), (33, 9, 3, 40), (35, 34, 12, 5), (1, 300, 5, 4)],
    )
    def test_sizes(self, m: int, n: int, k: int, v: int) -> None:
        self.attend(attention(m, n, k, v))

    @pytest.mark.parametrize("kind", [float16, bfloat16], ids=str)
    def test_types(self, kind: dtype) -> None:
        self.needs(kind)
        self.attend(attention(5, 9, 8, 8, kind, 2))

    def test_other_layouts(self) -> None:
        self.attend(attention(5, 9, 8, 4, batch=3, turned=True))

    def test_bounds(self) -> None:
        row = coordinate(1)
        self.attend(attention(40, 37, 4, 4, last=row + 1))
        self.attend(attention(9, 40, 4, 4, first=row * 4 - 3))
        # Some rows have nothing, bounds lie outside, and what is there is not read.
        self.attend(attention(9, 40, 4, 4, first=row - 2, last=row * 20 - 60), (1, 39 * 4, INF))
        results = self.attend(attention(2, 40, 4, 4, last=coordinate(0) + 3), (1, 4 * 4, NAN), (2, 39 * 4, NAN))
        assert all(each == each for each in results[0])

    @pytest.mark.parametrize("kind", [bool_, float32, float16], ids=str)
    def test_masks(self, kind: dtype) -> None:
        self.needs(kind)
        changes = [(3, 7 * 2 + each, False if kind is bool_ else -INF) for each in range(7)]
        results = self.attend(attention(5, 7, 4, 4, batch=2, mask=kind), *changes)
        assert results[0][8:12] == [0.0] * 4
        assert results[1][2] == -INF

    def test_infinities_and_nan(self) -> None:
        results = self.attend(attention(3, 5, 4, 4), (0, 0, NAN), (0, 4, INF))
        assert all(each != each for each in results[0][:8])
        assert all(each == each for each in results[0][8:])

    def test_large_scores(self) -> None:
        given = [[100.0, 1.0], [each * 8.0 for each in range(70)], [float(each) for each in range(70)]]
        kernel = attention(2, 70, 1, 1)
        self.needs_attention()
        (result, _) = self.check(kernel, given, parameters=(1.0,))
        assert result[0] == 69.0

    @pytest.mark.parametrize(("m", "n", "k", "v"), [(3, 5, 4, 8), (34, 9, 7, 3), (5, 40, 40, 36)])
    def test_several_products_and_sums(self, m: int, n: int, k: int, v: int) -> None:
        self.attend(derivative(m, n, k, v))

    def test_numbers_from_int32(self) -> None:
        """What is not multiplied often may have any type."""
        kernel = attention(3, 6, 4, 4)
        bound = load(0, 0, (0, 0), int32)
        moved = [each.replace(left=_shifted(each.left), right=_shifted(each.right)) for each in kernel.products]
        (total,) = kernel.sums
        kernel = kernel.replace(
            operands=operands((int32, 1), *((each.dtype, each.numel) for each in kernel.operands)), products=tuple(moved),
            sums=(total.replace(value=_shifted(total.value)),), last=bound,
        )  # fmt: skip
        self.needs_attention()
        given = [[2], *(numbers(each.numel, 5) for each in kernel.operands[1:])]
        self.check(kernel, given, parameters=(1.0,))


def _shifted(root: Expression) -> Expression:
    """Return a plain load of the operand behind."""
    operand, offset, strides = root.payload
    return load(operand + 1, offset, strides, root.dtype)
