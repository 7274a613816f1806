"""Blocks of attention on matrix units: which an adapter has room for, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeVar

from webgpu_torch_core.ir.dtypes import float32
from webgpu_torch_core.ir.expression import constant
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..gpu.interface import MatrixUnit
from ..program import Capabilities
from .attention_parts import as_contraction
from .attention_tile import columns_read
from .contraction import Side
from .contraction_matrix import MatrixTile, half_of, side_of, unit_of

#: halves, and sums, that one element of workgroup memory holds; elements that rows are longer by, against bank conflicts
HALVES, SUMS, PAD_HALVES, PAD_SUMS = 8, 4, 8, 4
#: rows, columns at a time, subgroups that share rows and matrices below each other, that workgroups compute, and the share of the
#: units' rate that they reach with all of these busy, with products up to 64 deep and deeper ones
_BLOCKS = {
    (128, 32, 1, 1): (0.205, 0.215), (64, 32, 1, 1): (0.217, 0.173), (64, 32, 1, 2): (0.192, 0.089),
    (64, 64, 1, 1): (0.148, 0.099), (64, 16, 1, 1): (0.158, 0.182), (32, 16, 1, 1): (0.155, 0.148),
}  # fmt: skip
#: the depth up to which products are not deep, and the subgroups of a unit that keep it busy
_DEEP, _BUSY = 64, 16
#: depths of a subgroup's rows, one behind the other for each matrix below another, up to which they stay there
_KEPT = 128
#: deepest products and widest sums: a subgroup keeps its sums in registers
_WIDEST = 128


class AttentionMatrixTile(Record):
    """A variant: rows and columns of a workgroup's block, padded depth of the product and width of the sum, how many
    subgroups share rows, and how many matrices lie below each other in those rows."""

    __slots__ = fields = ("m", "n", "k", "v", "across", "down", "unit")
    m: int
    n: int
    k: int
    v: int
    across: int
    down: int
    unit: MatrixUnit

    #: nobody else has columns of the rows
    rows = splits = 1
    #: halves that each number is
    parts = 1

    @property
    def own(self) -> int:
        """Rows of a subgroup."""
        return self.unit.m * self.down

    @property
    def members(self) -> int:
        """Threads that turn the scores of a row into weights."""
        return self.unit.threads * self.across // self.own

    @property
    def threads(self) -> int:
        """Threads per workgroup."""
        return self.m * self.members

    @property
    def kept(self) -> bool:
        """Whether a subgroup keeps the rows of the product in registers."""
        return self.down * self.k <= _KEPT * self.parts

    @property
    def sides(self) -> tuple[int, int, int, int, int]:
        """Elements of workgroup memory that rows, columns, values, scores and weights take."""
        rows, columns = (max(each * (self.k + PAD_HALVES), self.k * (each + PAD_HALVES)) for each in (self.m, self.n))
        scores = max(self.m * (self.n + PAD_SUMS), self.m * self.across * (self.unit.n + PAD_SUMS))
        values, weights = self.n * (self.v + PAD_HALVES), self.m * (self.n + PAD_HALVES)
        rows, columns, values, weights = (self.parts * each // HALVES for each in (rows, columns, values, weights))
        return rows, columns, values, scores // SUMS, weights

    @property
    def size(self) -> int:
        """Elements of workgroup memory: rows that are kept need none when columns come."""
        rows, *others = self.sides
        return max(rows, sum(others)) if self.kept else rows + sum(others)

    def product(self) -> MatrixTile:
        """Return the tile of the product of rows and columns."""
        columns = self.n // self.across
        return MatrixTile(self.m, self.n, self.k, self.own, columns, 1, 0, PAD_HALVES, 1, 1, 1, self.unit, ())

    def sum(self) -> MatrixTile:
        """Return the tile of the sum of values."""
        columns = self.v // self.across
        return MatrixTile(self.m, self.v, self.n, self.own, columns, 1, 0, PAD_HALVES, 1, 1, 1, self.unit, ())


_Kind = TypeVar("_Kind", bound=AttentionMatrixTile)


def attention_matrix_tiles(kernel: Attention, capabilities: Capabilities) -> Iterator[AttentionMatrixTile]:
    """Return the blocks by which an adapter's matrix units can compute an attention."""
    unit = unit_of(capabilities)
    if unit is None or len(kernel.products) != 1 or len(kernel.sums) != 1:
        return
    [product], [total] = kernel.products, kernel.sums
    known = all(half_of(each) is not None for each in (product.left, product.right, total.value))
    if known and values_of(kernel).axis != "k":
        yield from fitting_blocks(AttentionMatrixTile, _BLOCKS, kernel, capabilities, unit)


def fitting_blocks(
    kind: type[_Kind], blocks: Iterable[tuple[int, int, int, int]], kernel: Attention, capabilities: Capabilities, unit: MatrixUnit
) -> Iterator[_Kind]:  # fmt: skip
    """Return those of some blocks that compute an attention of one product and one sum, and that an adapter has room for."""
    [product], [total] = kernel.products, kernel.sums
    depth, width = (number_of_elements(kernel.k if each == "k" else kernel.v) for each in (product.depth, total.along))
    if (
        kernel.score is None
        or total.weight.step != "accumulator"
        or max(depth, width) > _WIDEST
        or unit.threads % unit.m
    ):
        return
    for m, n, across, down in blocks:
        tile = _tile(
            kind, m, n, -(-max(depth, 1) // 16) * 16, -(-width // (16 * across)) * 16 * across, across, down, unit
        )
        if fits(tile, capabilities):
            yield tile


def fits(tile: AttentionMatrixTile, capabilities: Capabilities) -> bool:
    """Return whether threads bring whole blocks, and an adapter has room for them."""
    m, n, k = tile.m, tile.n, tile.k
    sides = ((m, k), (n, k), (tile.v, n))
    whole = all(tile.parts * side * deep % (HALVES * tile.threads) == 0 for side, deep in sides)
    nbytes = 16 * tile.size + 4 * m + 64
    return (
        whole
        and m % tile.own == 0
        and (tile.members == 1 or capabilities.subgroups)
        and tile.threads <= capabilities.invocations
        and nbytes <= capabilities.workgroup_bytes
    )


@cache
def _tile(kind: type[_Kind], m: int, n: int, k: int, v: int, across: int, down: int, unit: MatrixUnit) -> _Kind:
    return kind(m, n, k, v, across, down, unit)


def values_of(kernel: Attention) -> Side:
    """Return the values of the sum as a contraction's side."""
    [total] = kernel.sums
    return side_of(as_contraction(kernel, "m", total.along, "n", constant(0.0, float32), total.value), "n")


def attention_matrix_seconds(kernel: Attention, tile: AttentionMatrixTile, facts: Facts) -> float:
    """Return an estimate of the time that blocks take for an attention."""
    share = _BLOCKS[tile.m, tile.n, tile.across, tile.down][tile.k > _DEEP]
    return attending_seconds(kernel, tile, facts, share) + facts.dispatch


def attending_seconds(kernel: Attention, tile: AttentionMatrixTile, facts: Facts, share: float) -> float:
    """Return an estimate of the time that blocks take which reach a share of the units' rate with all of these busy."""
    batch, m, n = map(number_of_elements, (kernel.batch, kernel.m, kernel.n))
    rounds = -(-(-(-m // tile.m) * batch) // facts.units)
    # Subgroups of one or of several workgroups share a unit, and overlap what they wait for.
    busy = min(rounds * tile.threads // tile.unit.threads / _BUSY, 1.0)
    work = 2 * tile.m * -(-n // tile.n) * tile.n * columns_read(kernel) * (tile.k + tile.v)
    return rounds * facts.units * work / (facts.products * share * busy)
