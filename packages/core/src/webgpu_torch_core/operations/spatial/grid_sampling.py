"""Sums of elements read at positions that differ per row of a batch but not per channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import add, mul
from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import dtype, float32, float64, int32, int64
from ...ir.kernels import Operand
from ...ir.layouts import Layout
from ...tensors.tensor import Tensor
from ..common import attach, kernel_cache, needs_gradient, record
from ..creation.ranges import arange
from ..elementwise.choosing import where
from ..elementwise.overloads import clamp
from ..indexing.gathering import gather, index_add
from ..movement.joining import element_index
from .sliding_windows import summing_kernel


@kernel_cache
def _gathering_kernel(
    source: Layout, numel: int, kind: dtype, parts: tuple[tuple[Layout, int, Layout, int], ...], weight_kind: dtype
) -> Any:
    """Return the kernel of :func:`gathered_sum`; ``parts``: layouts and numbers of elements of places and weights along each axis."""
    batch, _, count = parts[0][0].shape
    axes = range(len(parts))
    wide = float64 if kind is float64 else float32

    def term(at: list[Any], tap: list[Any]) -> Any:
        place: Any = None
        weight: Any = None
        for axis, (places, _, weights, _) in zip(axes, parts, strict=True):
            entry = [at[0], tap[axis], at[2]]
            part: Any = ir.load_at(1 + 2 * axis, element_index(places, entry), int32)
            factor: Any = ir.cast(ir.load_at(2 + 2 * axis, element_index(weights, entry), weight_kind), wide)
            place = part if place is None else place + part
            weight = factor if weight is None else weight * factor
        coordinates = [at[0], at[1], ir.apply("maximum", place, 0)]
        element: Any = ir.cast(ir.load_at(0, element_index(source, coordinates), kind), wide)
        return ir.select(ir.constant(0, int32) <= place, element * weight, ir.constant(0, wide))

    operands = [Operand(kind, numel)]
    for _, places_numel, _, weights_numel in parts:
        operands += [Operand(int32, places_numel), Operand(weight_kind, weights_numel)]
    taps = tuple(places.shape[1] for places, *_ in parts)
    return summing_kernel("gathered_sum", tuple(operands), kind, (batch, source.shape[1], count), taps, term)


def gathered_sum(
    input: Tensor, places: Sequence[Tensor], weights: Sequence[Tensor], finer: Sequence[Tensor] = ()
) -> Tensor:
    """Return [n, c, p]: for each position the sum over neighbours of ``weights * input[places]``, the same places for all channels.

    input [n, c, s]. Along each axis, places [n, k, p] of int32 and weights [n, k, p] of at least float32: a neighbour's place is the
    sum of one of each axis, its weight their product. Where the sum is negative nothing is read.
    ``finer``, where they are given, are the same weights with less rounding, whose gradients are computed instead.
    The gradient adds whole rows of channels, so that it runs over positions once for all channels.
    """
    tracked = needs_gradient(input, *weights, *finer)
    if tracked and len(places) > 1:
        places, weights = [_combined(places, add)], [_combined(weights, mul)]
    if finer:
        product = _combined(finer, mul)
        weights = [product + (weights[0] - product.detach())]
    parts = tuple(
        (place._layout, place._storage.value.numel, weight._layout, weight._storage.value.numel)
        for place, weight in zip(places, weights, strict=True)
    )
    kernel = _gathering_kernel(input._layout, input._storage.value.numel, input.dtype, parts, weights[0].dtype)
    shape = (*input._layout.shape[:2], places[0]._layout.shape[2])
    operands = (input, *chain.from_iterable(zip(places, weights, strict=True)))
    result = record(kernel, operands, (), (shape,))
    if tracked:
        saved = input._save(), places[0]._save(), weights[0]._save()
        needs = input.requires_grad, weights[0].requires_grad

        def run_backward(grad: Tensor) -> tuple[Any, Any, Any]:
            source, chosen, factors = (each.unpack() for each in saved)
            return (
                _returned(grad, chosen, factors, source) if needs[0] else None,
                None,
                _weight_gradient(grad, chosen, factors.dtype, source) if needs[1] else None,
            )

        attach(result, "GridSamplerBackward0", (input, places[0], weights[0]), run_backward)
    return result


def _combined(parts: Sequence[Tensor], combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return [n, k, p] of all neighbours from what belongs to each axis' own, combined from the last axis on as PyTorch does."""
    batch, _, count = parts[0]._layout.shape
    found = parts[-1]
    for each in reversed(parts[:-1]):
        found = combine(found.unsqueeze(1), each.unsqueeze(2)).reshape((batch, -1, count))
    return found


def _returned(grad: Tensor, places: Tensor, weights: Tensor, input: Tensor) -> Tensor:
    """Return [n, c, s]: weighted gradients [n, c, p] added at their places."""
    batch, channels, size = input._layout.shape
    taps = places._layout.shape[1]
    # What lies outside adds zeros: spread over the places, since those that go to one place are added one after the other.
    anywhere = arange(grad._layout.shape[2], device=grad.device) % size
    flat = where(places < 0, anywhere, places.to(int64))
    if batch > 1:
        flat = flat + arange(batch, device=grad.device).reshape((batch, 1, 1)) * size
    factors = where(places < 0, weights.new_zeros(()), weights)
    # Position by position, as PyTorch's are added: long sums of float32 depend on the order.
    flat, factors = flat.permute((0, 2, 1)), factors.permute((0, 2, 1))
    rows = grad.permute((0, 2, 1)).unsqueeze(2) * factors.unsqueeze(3)
    total = index_add(
        rows.new_zeros((batch * size, channels)),
        0,
        flat.reshape(-1),
        rows.reshape((batch * taps * grad.shape[2], channels)),
    )
    return total.reshape((batch, size, channels)).permute((0, 2, 1)).to(input.dtype)


def _weight_gradient(grad: Tensor, places: Tensor, kind: dtype, input: Tensor) -> Tensor:
    """Return [n, k, p]: the sum over channels of gradients times the elements read."""
    batch, taps, count = places._layout.shape
    channels = input._layout.shape[1]
    index = clamp(places, min=0).reshape((batch, 1, taps * count)).expand((batch, channels, taps * count))
    elements = gather(input, 2, index).reshape((batch, channels, taps, count))
    # The gradient of a position is a small difference of these: rounded once where the device has the type for that.
    wide = float64 if float64 in input._storage.value.engine.dtypes else float32
    products = (elements.to(wide) * grad.unsqueeze(2).to(wide)).sum(1).to(kind)
    return where(places < 0, products.new_zeros(()), products)
