"""Separable sparse linear maps along trailing dimensions: interpolation, adaptive pooling, and their gradients.

A :class:`Table` lists, for every output position of one dimension, the input positions it reads and their weights. The
gradient is the map of the transposed table, so both directions are the same kernel that gathers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

from ...dispatch.type_rules import with_type_rule
from ...ir import expression as ir
from ...ir.dtypes import dtype, float32, float64, int32
from ...ir.kernels import Operand
from ...ir.layouts import Layout
from ...record.devices import device, engine_for, on_host
from ...tensors.tensor import Tensor
from ..common import attach, is_half, kernel_cache, ordered_as, record
from ..creation.factories import from_bytes
from ..movement.joining import element_index
from .sliding_windows import nothing, summing_kernel

#: most elements one output element reads in a single kernel; beyond, dimensions are mapped one after another
FEW = 36

Row = Sequence[tuple[int, float]]


class Table:
    """For each output position of a dimension: the input positions it reads, and their weights.

    Attributes:
        size: how many input positions there are.
        rows: one sequence of (position, weight) per output position.
        width: the longest row.
        ragged: whether some row is shorter.
        unit: whether all weights are one: nothing is multiplied, so that any element type can be mapped.
    """

    __slots__ = ("_tensors", "_transposed", "ragged", "rows", "size", "unit", "width")

    def __init__(self, size: int, rows: Sequence[Row]) -> None:
        self.size = size
        self.rows = rows
        self.width = max((len(each) for each in rows), default=0)
        self.ragged = any(len(each) != self.width for each in rows)
        self.unit = all(weight == 1.0 for row in rows for _, weight in row)
        self._tensors: dict[Any, tuple[Tensor, ...]] = {}
        self._transposed: Table | None = None

    def transposed(self) -> Table:
        """Return the table that maps gradients back."""
        if self._transposed is None:
            columns: list[list[tuple[int, float]]] = [[] for _ in range(self.size)]
            for place, row in enumerate(self.rows):
                for position, weight in row:
                    if weight:
                        columns[position].append((place, weight))
            self._transposed = Table(len(self.rows), columns)
            self._transposed._transposed = self
        return self._transposed

    def tensors(self, place: device, kind: dtype) -> tuple[Tensor, ...]:
        """Return positions (int32, -1 where a row is shorter) and, unless all are one, weights: [rows, width] on a device."""
        # By its engine: what lived on a device that was lost is not on the one that was opened in its place.
        key = (engine_for(place), kind)
        found = self._tensors.get(key)
        if found is None:
            filled = [[*row, *((-1, 0.0),) * (self.width - len(row))] for row in self.rows]
            shape = (len(self.rows), self.width)
            found = (from_bytes(array("i", [each for row in filled for each, _ in row]), shape, int32, place),)
            if not self.unit:
                weights = array("d" if kind is float64 else "f", [weight for row in filled for _, weight in row])
                found = (*found, from_bytes(weights, shape, kind, place))
            self._tensors[key] = found
        return found

    def key(self) -> tuple[int, int, bool, bool]:
        """Return what a kernel depends on: (outputs, width, ragged, unit)."""
        return len(self.rows), self.width, self.ragged, self.unit


Axis = tuple[int, int, bool, bool]


@kernel_cache
def _resampling_kernel(
    source: Layout,
    numel: int,
    kind: dtype,
    weight_kind: dtype,
    first: int,
    axes: tuple[Axis | None, ...],
    from_zero: bool,
) -> Any:
    """Return the kernel for dimensions from ``first`` on; ``axes`` gives each table's key, None for identity."""
    outer = list(source.shape)
    inner: list[int] = []
    operands = [Operand(kind, numel)]
    slots: list[int] = []
    for index, axis in enumerate(axes):
        slots.append(len(operands))
        if axis is not None:
            outer[first + index] = axis[0]
            inner.append(axis[1])
            kinds = (int32,) if axis[3] else (int32, weight_kind)
            operands += [Operand(each, axis[0] * axis[1]) for each in kinds]
    weighted = any(axis is not None and not axis[3] for axis in axes)

    def term(places: list[Any], taps: list[Any]) -> Any:
        coordinates = list(places)
        inside: Any = None
        factor: Any = None
        remaining = list(taps)
        for index, axis in enumerate(axes):
            if axis is None:
                continue
            entry = places[first + index] * axis[1] + remaining.pop(0)
            position: Any = ir.load_at(slots[index], entry, int32)
            if not axis[3]:
                weight = ir.load_at(slots[index] + 1, entry, weight_kind)
                factor = weight if factor is None else factor * weight
            if axis[2]:
                test = ir.constant(0, int32) <= position
                inside = test if inside is None else inside & test
                position = ir.apply("maximum", position, 0)
            coordinates[first + index] = position
        element: Any = ir.load_at(0, element_index(source, coordinates), kind)
        if weighted:
            element = ir.cast(element, weight_kind) * factor
        return element if inside is None else ir.select(inside, element, ir.constant(0, element.dtype))

    return summing_kernel("resample", tuple(operands), kind, tuple(outer), tuple(inner), term, from_zero=from_zero)


@with_type_rule("resampled")
def resampled(
    input: Tensor, tables: Sequence[Table | None], from_zero: bool = False, ordered: tuple[bool, bool] = (True, True)
) -> Tensor:
    """Return the input with its last dimensions mapped by one table each (None keeps a dimension).

    Tables with weights need floating-point inputs. Differentiable any number of times, at the cost of the transposed map.

    Args:
        from_zero: whether sums begin with 0.
        ordered: whether the result is in the input's order in memory, and whether the gradient is in the order of what arrives;
            row-major if not.
    """
    result = _mapped(input, tables, from_zero, ordered)
    return ordered_as(result, input) if ordered[0] else result


def _is_apart(input: Tensor, tables: Sequence[Table]) -> bool:
    """Return whether dimensions are mapped one after another: there are too many products for one kernel, or a host has fewer so.

    Numbers of 16 bits would be rounded in between, or take twice the memory.
    """
    products = math.prod(each.width for each in tables) if len(tables) > 1 else 1
    return products > FEW or (products > 1 and input.dtype in (float32, float64) and on_host(input.device))


def _mapped(input: Tensor, tables: Sequence[Table | None], from_zero: bool, ordered: tuple[bool, bool]) -> Tensor:
    """Return the input with its last dimensions mapped, in row-major order."""
    if _is_apart(input, [each for each in tables if each is not None]):
        if is_half(input):
            # Rounded once.
            return _mapped(input.to(float32), tables, from_zero, ordered).to(input.dtype)
        chosen = [(index, each) for index, each in enumerate(tables) if each is not None]
        # Dimensions that shrink most come first: less is left for the others. Of two, whole rows are read along the first.
        chosen.sort(key=lambda each: (len(each[1].rows) / max(each[1].size, 1), -each[0]))
        for index, table in chosen:
            alone = [table if number == index else None for number in range(len(tables))]
            input = _mapped(input, alone, from_zero, ordered)
        return input
    first = input.ndim - len(tables)
    shape = (
        *input._layout.shape[:first],
        *(input.shape[first + index] if each is None else len(each.rows) for index, each in enumerate(tables)),
    )
    if not input.numel() or 0 in shape:
        return nothing(input, shape)
    kind = float64 if input.dtype is float64 else float32
    axes = tuple(None if each is None else each.key() for each in tables)
    operands = [input]
    for each in tables:
        if each is not None:
            operands += each.tensors(input.device, kind)
    kernel = _resampling_kernel(input._layout, input._storage.value.numel, input.dtype, kind, first, axes, from_zero)
    result = record(kernel, operands, (), (shape,))
    count = len(operands)

    def run_backward(grad: Tensor) -> tuple[Any, ...]:
        transposed = [None if each is None else each.transposed() for each in tables]
        back = resampled(grad, transposed, True, ordered[::-1])
        return (back, *(None,) * (count - 1))

    return attach(result, "ResampleBackward0", operands, run_backward)
