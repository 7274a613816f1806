"""Causal masks that are not written out, as ``torch.nn.attention.bias``.

Nothing imports this by itself: a class that answers operations makes every call look for such classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, auto
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn.functional import scaled_dot_product_attention


class CausalVariant(IntEnum):
    """Where a causal mask that is not square begins: at its first query and key, or at its last."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A causal mask [queries, keys] that ``scaled_dot_product_attention`` takes and that no memory holds.

    Args:
        variant: where the mask begins.
        seq_len_q: how many queries there are.
        seq_len_kv: how many keys there are.

    Raises:
        AssertionError: the variant is none.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        # The shape is PyTorch's; one element stands for all.
        made: Any = torch.zeros(()).expand(int(variant), seq_len_q, seq_len_kv).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!")
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        """See the class."""

    def _materialize(self, device: Any = None) -> Tensor:
        """Return the mask written out, True where a query sees a key."""
        last = self.variant is CausalVariant.LOWER_RIGHT
        ones = torch.ones(self.seq_len_q, self.seq_len_kv, device="cpu" if device is None else device, dtype=torch.bool)
        return torch.tril(ones, self.seq_len_kv - self.seq_len_q if last else 0)

    @classmethod
    def _dispatch(cls, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, dropout_p: float = 0.0,
                  is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:  # fmt: skip
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        first = attn_mask.variant is CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv
        mask = None if first else attn_mask._materialize(query.device)
        return scaled_dot_product_attention(
            query, key, value, mask, dropout_p, first, scale=scale, enable_gqa=enable_gqa
        )

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[Any], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Answer attention; leave the rest to tensors."""
        if func is scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self._materialize())


def _bias(name: str, variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return CausalBias(variant, *size)


def causal_upper_left(*size: int) -> CausalBias:
    """Return a causal mask of a size (queries, keys) by which query i sees the keys up to i.

    Raises:
        AssertionError: there are not two sizes.
    """
    return _bias("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return a causal mask of a size (queries, keys) by which the last query sees all keys.

    Raises:
        AssertionError: there are not two sizes.
    """
    return _bias("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
