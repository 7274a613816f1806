"""What a leaf keeps of the gradient that arrives first."""

from __future__ import annotations

from functools import lru_cache

from ...ir.layouts import Layout, contiguous_strides, is_dense
from ...ir.layouts import layout as make_layout
from ...tensors.tensor import MetaValue, Tensor
from .writing import write_kernel


def owned(gradient: Tensor, place: Layout, alone: bool) -> Tensor:
    """Return a gradient for a tensor with a layout to keep and add to: laid out as the tensor is, and a copy unless it is
    ``alone``.
    """
    value, own = gradient._storage.value, gradient._layout
    if value.__class__ is MetaValue:
        return gradient
    # Of nothing there are no gaps, whatever the strides.
    wanted = _gathered(place) if own.numel else place
    lies_so = own.strides == wanted.strides or (alone and _keeps(own, wanted))
    if own.numel == 0:
        if lies_so:
            return gradient
        return Tensor._from_storage(
            gradient._storage, make_layout(own.shape, wanted.strides), gradient.dtype, gradient.device
        )
    if gradient.dtype.is_complex:
        if alone and lies_so and own.offset == 0 and own.numel == value.numel // 2:
            return gradient
        # A floor above: looked up when it is used.
        from ..creation.strided import empty_strided

        return empty_strided(own.shape, wanted.strides, dtype=gradient.dtype, device=gradient.device).copy_(gradient)
    if alone and lies_so and own.offset == 0 and own.numel == value.numel:
        return gradient
    kind = gradient.dtype
    kernel = write_kernel(own, value.numel, kind, wanted, wanted.numel, kind, True)
    return Tensor._from_value(value.engine.record(kernel, [value])[0], wanted, kind, gradient.device)


@lru_cache(maxsize=4096)
def _keeps(own: Layout, wanted: Layout) -> bool:
    """Return whether a gradient lies as is wanted of it: a single element may have any stride but that of something expanded."""
    return all(
        stride if size == 1 else stride == other
        for size, stride, other in zip(own.shape, own.strides, wanted.strides, strict=True)
    )


@lru_cache(maxsize=4096)
def _gathered(place: Layout) -> Layout:
    """Return a layout without offset and gaps: with the same strides if they leave none."""
    strides = place.strides if is_dense(place) else contiguous_strides(place.shape)
    return make_layout(place.shape, strides)
