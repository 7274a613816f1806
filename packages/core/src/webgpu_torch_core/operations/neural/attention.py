"""Scaled dot-product attention: one kernel on devices that have its form, on others two products and a softmax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...ir.dtypes import bool_, float32
from ...ir.layouts import layout
from ...record.devices import on_host
from ...replay.recipes import remembered, saves_arguments
from ...tensors.tensor import Tensor
from ..common import attach, is_half, needs_gradient, type_title, wide
from ..contraction.matrix_products import matmul, matrix_product
from ..creation.ranges import arange
from ..elementwise.overloads import masked_fill
from ..reduction.reductions import amax
from .attention_kernels import arranged, attended, is_plain, result_layout, shapes_of
from .layers import dropout, softmax

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


@operation("contraction", namespace="functional", method=False)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Any,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Number | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value`` over the last two dimensions (Vaswani et al., 2017).

    query [..., heads, l, e], key [..., heads, s, e], value [..., heads, s, v]; a boolean mask keeps where True.

    Raises:
        RuntimeError: both ``attn_mask`` and ``is_causal``.
    """
    if dropout_p > 0.0:
        return _attention(query, key, value, attn_mask, is_causal, scale, enable_gqa, dropout_p)
    return _attention_without_dropout(query, key, value, attn_mask, is_causal, scale, enable_gqa)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: Number | None,
    enable_gqa: bool,
    dropout_p: float = 0.0,
) -> Tensor:
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.ndim} "
            f"key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype.word} "
            f"key.dtype: {key.dtype.word} and value.dtype: {value.dtype.word} instead."
        )
    if query.dtype.category < 2:
        raise RuntimeError(f"expected scalar type Float but found {type_title(query)}")
    if attn_mask is not None:
        if is_causal:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        if attn_mask.dtype.category and attn_mask.dtype not in (float32, query.dtype):
            raise RuntimeError(
                f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{attn_mask.dtype.word} and  query.dtype: {query.dtype.word} instead."
            )
    factor = 1.0 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    shapes = shapes_of(query, key, value, attn_mask, enable_gqa)
    if shapes is not None and not dropout_p > 0.0 and not needs_gradient(query, key, value, attn_mask):
        found = attended(query, key, value, attn_mask, is_causal, float(factor), shapes)
        if found is not None:
            return found
        found = _composed(query, key, value, attn_mask, is_causal, factor, enable_gqa, dropout_p)
        return arranged(found, result_layout(query, key, value, attn_mask, shapes))
    if shapes is None or dropout_p > 0.0 or needs_gradient(attn_mask) or not is_plain(query, key, value, attn_mask):
        return _composed(query, key, value, attn_mask, is_causal, factor, enable_gqa, dropout_p)
    wanted = result_layout(query, key, value, attn_mask, shapes)
    query, key, value = map(_with_gradient_by_position, (query, key, value))
    found = _composed(query, key, value, attn_mask, is_causal, factor, enable_gqa, dropout_p)
    return retitled(arranged(found, wanted), "ScaledDotProductFlashAttentionForCpuBackward0")


def _with_gradient_by_position(input: Tensor) -> Tensor:
    """Return queries, keys or values [b, heads, l, e] whose gradient lies in memory as [b, l, heads, e]."""
    if not needs_gradient(input):
        return input
    same = Tensor._from_storage(input._storage, input._layout, input.dtype, input.device)
    b, heads, count, size = input._layout.shape
    wanted = layout((b, heads, count, size), (count * heads * size, size, heads * size, 1))
    return attach(same, "CloneBackward0", (input,), lambda grad: arranged(grad, wanted))


_attention_without_dropout = remembered(saves_arguments(_attention))


def _composed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: Number,
    grouped: bool,
    dropout_p: float,
) -> Tensor:
    """Return attention by two products and a softmax."""
    if is_half(query) and query.dtype is key.dtype is value.dtype and on_host(query.device):
        # Hosts multiply in float32 anyway: nothing in between need be rounded for it.
        found = _composed(wide(query), wide(key), wide(value), mask, causal, scale, grouped, dropout_p)
        return found.to(query.dtype)
    if grouped:
        repeats = query.shape[-3] // key.shape[-3]
        key = key.repeat_interleave(repeats, -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    weights = _weights(query, key, mask, causal, scale)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return matmul(weights.to(value.dtype), value)


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scale: Number) -> Tensor:
    """Return the softmax of the scores, in float32 for 16-bit operands."""
    # Scores of 16-bit operands stay as they were accumulated: an exponential magnifies what rounding takes.
    scores = matrix_product(query, key.transpose(-2, -1), wide=True) * scale
    if causal:
        scores = _causal(scores)
    if mask is None:
        return softmax(scores, -1)
    scores = masked_fill(scores, ~mask, -math.inf) if mask.dtype is bool_ else scores + mask
    # A row that attends to nothing gives zeros, with gradient zero, not NaN.
    nothing = amax(scores.detach(), -1, True) == -math.inf
    return masked_fill(softmax(masked_fill(scores, nothing, 0.0), -1), nothing, 0.0)


def _causal(scores: Tensor) -> Tensor:
    """Mask the future: positions compare as numbers, so no mask tensor is stored."""
    rows = arange(scores.shape[-2], device=scores.device).unsqueeze(1)
    columns = arange(scores.shape[-1], device=scores.device)
    return masked_fill(scores, columns > rows, -math.inf)
