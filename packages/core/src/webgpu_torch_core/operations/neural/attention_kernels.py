"""Kernels of the attention form: which dimensions queries, keys, values and masks have, and what is computed from them."""

from __future__ import annotations

from typing import NamedTuple

from ...ir import expression as ir
from ...ir.dtypes import bfloat16, bool_, dtype, float16, float32, int32
from ...ir.kernels import Attention, Operand, Output, Product, Store, WeightedSum
from ...ir.layouts import (
    Layout,
    broadcast_shapes,
    broadcast_strides,
    contiguous_layout,
    dense_strides,
    layout,
    number_of_elements,
    repeats,
)
from ...record.devices import MetaEngine
from ...tensors.tensor import Tensor
from ..common import kernel_cache, no_view, record

_TYPES = (float32, float16, bfloat16)
_INFINITY = float("inf")


class Shapes(NamedTuple):
    """The sizes of an attention.

    Fields:
        lead: dimensions before the last two, of keys; the last of them counts heads, where there are any.
        groups: how many heads of queries share one of keys: they are rows of one attention, and keys are read once for all.
        queries, keys, features, values: the sizes of the last two dimensions of queries and keys, and the last one of values.
    """

    lead: tuple[int, ...]
    groups: int
    queries: int
    keys: int
    features: int
    values: int

    @property
    def rows(self) -> tuple[int, ...]:
        """The row dimensions: queries, by heads of a group if there are several."""
        return (self.queries,) if self.groups == 1 else (self.groups, self.queries)

    @property
    def heads(self) -> tuple[int, ...]:
        """The dimensions of queries before the last two."""
        return self.lead if self.groups == 1 else (*self.lead[:-1], self.lead[-1] * self.groups)

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (*self.heads, self.queries, self.values)

    def of_queries(self, source: Layout, last: int) -> tuple[tuple[int, ...], int]:
        """Return the strides over batch and rows, and the last one, of what is given for each query."""
        *batch, row, inner = broadcast_strides(source, (*self.heads, self.queries, last))
        if self.groups > 1:
            return (*batch[:-1], batch[-1] * self.groups, batch[-1], row), inner
        return (*batch, row), inner

    def of_keys(self, source: Layout, last: int) -> tuple[tuple[int, ...], int, int]:
        """Return the strides over batch and (none) rows, along keys, and the last one, of what is given for each key."""
        *batch, column, inner = broadcast_strides(source, (*self.lead, self.keys, last))
        return (*batch, *(0 for _ in self.rows)), column, inner


def shapes_of(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, grouped: bool) -> Shapes | None:
    """Return the sizes of an attention that one kernel can compute; None where the operands do not allow it."""
    q, k, v = query._layout, key._layout, value._layout
    if min(q.ndim, k.ndim, v.ndim) < 2 or not q.numel or not k.numel or not v.numel:
        return None
    if query.dtype not in _TYPES or not query.dtype is key.dtype is value.dtype:
        return None
    if (
        q.shape[-1] != k.shape[-1]
        or k.shape[-2] != v.shape[-2]
        or (mask is not None and mask.dtype not in (*_TYPES, bool_))
    ):
        return None
    groups, lead = 1, q.shape[:-2]
    if grouped:
        if min(q.ndim, k.ndim, v.ndim) < 3 or k.shape[-3] != v.shape[-3] or q.shape[-3] % k.shape[-3]:
            return None
        groups = q.shape[-3] // k.shape[-3]
        lead = (*q.shape[:-3], k.shape[-3])
    try:
        lead = broadcast_shapes(lead, k.shape[:-2], v.shape[:-2])
        found = Shapes(lead, groups, q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1])
        if mask is not None and broadcast_shapes(mask.shape, (*found.result[:-1], found.keys)) != (
            *found.result[:-1],
            found.keys,
        ):
            return None
    except RuntimeError:
        return None
    return found


def attended(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float, shapes: Shapes
) -> Tensor | None:
    """Return attention ``[..., l, v]`` of ``query [..., l, e]``, ``key [..., s, e]`` and ``value [..., s, v]`` by one kernel.

    Without gradient; None where the device does not gain by that.
    """
    operands = [query, key, value] if mask is None else [query, key, value, mask]
    described = tuple((each._layout, each._storage.value.numel, each.dtype) for each in operands)
    result = result_layout(query, key, value, mask, shapes)
    kernel = _forward_kernel(described, causal, shapes, result)
    engine = query._storage.value.engine
    if not isinstance(engine, MetaEngine) and not engine.device.gains(kernel):
        return None
    return record(kernel, operands, (scale,), (result,))


def is_plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Return whether PyTorch's kernel for hosts would take [b, heads, l, e] in these places in memory."""
    q, k, v = query._layout, key._layout, value._layout
    given = (q, k, v) if mask is None else (q, k, v, mask._layout)
    return (
        q.ndim == k.ndim == v.ndim == 4
        and q.shape[-1] == v.shape[-1]
        and q.shape[0] == k.shape[0] == v.shape[0]
        and all(each.ndim > 1 and each.strides[-1] == 1 for each in given)
    )


def result_layout(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, shapes: Shapes) -> Layout:
    """Return how a result lies in memory: where PyTorch has a kernel for that, its dimensions in the order of the queries'."""
    like = query._layout
    if repeats(like) or like.shape != shapes.result or not is_plain(query, key, value, mask):
        return contiguous_layout(shapes.result)
    return layout(shapes.result, dense_strides(shapes.result, like.strides))


def arranged(result: Tensor, wanted: Layout) -> Tensor:
    """Return a result ``[..., l, v]``, without gradient, as it shall lie in memory."""
    if result._layout is wanted:
        return result
    order = sorted(range(wanted.ndim), key=lambda each: -wanted.strides[each])
    back = sorted(range(wanted.ndim), key=lambda each: order[each])
    return no_view(result.permute(order).contiguous().permute(back))


class _Sides:
    """The expressions of an attention's operands: (layout, elements of its memory, type) of queries, keys, values, mask."""

    def __init__(self, described: tuple[tuple[Layout, int, dtype], ...], shapes: Shapes) -> None:
        self.operands = tuple(Operand(kind, numel) for _, numel, kind in described)
        (query, _, kind), (key, _, _), (value, _, _), *mask = described
        rows, inner = shapes.of_queries(query, shapes.features)
        self.query = ir.cast(ir.load(0, query.offset, (*rows, inner, 0, 0), kind), float32)
        columns, along, inner = shapes.of_keys(key, shapes.features)
        self.key = ir.cast(ir.load(1, key.offset, (*columns, inner, 0, along), kind), float32)
        columns, along, inner = shapes.of_keys(value, shapes.values)
        self.value = ir.cast(ir.load(2, value.offset, (*columns, 0, inner, along), kind), float32)
        self.score = ir.reduced(0, float32) * ir.parameter(0, float32)
        for given, _, kind in mask:
            rows, inner = shapes.of_queries(given, shapes.keys)
            found = ir.load(3, given.offset, (*rows, 0, 0, inner), kind)
            if kind is bool_:
                self.score = ir.select(found, self.score, -_INFINITY)
            else:
                self.score = self.score + ir.cast(found, float32)


@kernel_cache
def _forward_kernel(
    described: tuple[tuple[Layout, int, dtype], ...], causal: bool, shapes: Shapes, result: Layout
) -> Attention:
    """Return the kernel of attention; its parameter is the scale."""
    sides, kind = _Sides(described, shapes), described[0][2]
    rows, inner = shapes.of_queries(result, shapes.values)
    store = Store(0, 0, (*rows, 0, inner), ir.cast(ir.accumulator(float32), kind))
    position = ir.coordinate(len(shapes.lead) + len(shapes.rows) - 1)
    return Attention(
        sides.operands, (Output(kind, number_of_elements(shapes.result), None),), (float32,), "attention",
        shapes.lead, shapes.rows, (shapes.features,), (shapes.values,), (shapes.keys,),
        (Product(sides.query, sides.key, "k"),), None, ir.cast(position, int32) + 1 if causal else None, sides.score,
        (WeightedSum(ir.accumulator(float32), sides.value, "v", store),), (),
    )  # fmt: skip
