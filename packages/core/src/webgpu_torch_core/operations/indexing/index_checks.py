"""Positions outside of a dimension, refused where they are known: kernels cannot raise."""

from __future__ import annotations

from typing import Any

from ...ir.layouts import wrap_dimension
from ...tensors.tensor import MetaValue, Tensor


def outside(index: Tensor, size: int, wraps: bool) -> int | None:
    """Return a position that a dimension of a size does not have, or None where there is none or nobody knows yet.

    Known are the numbers of index tensors that lie computed in the host's memory. Others are clamped by the kernels that read
    them, for waiting for them would break up every graph. ``wraps``: negative positions count from the end.
    """
    value: Any = index._storage.value
    if value.__class__ is MetaValue or value.buffer is None or value.engine.capture is not None or not index.numel():
        return None
    share = getattr(value.engine.device, "as_array", None)
    if share is None:
        return None
    numbers = share(value.buffer, value.dtype, value.numel)
    layout = index._layout
    if layout.is_contiguous:
        numbers = numbers[layout.offset : layout.offset + layout.numel]
    else:
        # Slow to import, and seldom needed.
        from numpy.lib.stride_tricks import as_strided

        strides = tuple(each * value.dtype.itemsize for each in layout.strides)
        numbers = as_strided(numbers[layout.offset :], layout.shape, strides, writeable=False)
    low, high = int(numbers.min()), int(numbers.max())
    if low < (-size if wraps else 0):
        return low
    return high if high >= size else None


def check_positions(
    index: Tensor, size: int, dim: int, error: type[Exception] = RuntimeError, wraps: bool = False, prefix: str = ""
) -> None:
    """Raise where a known position is outside of a dimension.

    Raises:
        RuntimeError: by default; IndexError for subscripts.
    """
    wrong = outside(index, size, wraps)
    if wrong is None:
        return
    if size == 0 and wraps:
        raise error("index is out of bounds for dimension with size 0")
    raise error(f"{prefix}index {wrong} is out of bounds for dimension {dim} with size {size}")


def check_written(name: str, index: Tensor, size: int, axis: int) -> None:
    """Raise where a known position of a write along a dimension is outside of it."""
    if name == "index_copy":
        check_positions(index, size, axis, IndexError, prefix="index_copy_(): ")
    elif name in ("index_fill", "index_put"):
        check_positions(index, size, axis, IndexError, wraps=True)
    else:
        check_positions(index, size, axis)


def check_source(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """Raise as PyTorch does where the source's dimensions do not fit."""
    axis = wrap_dimension(dim, input.ndim)
    count = index.numel()
    have = source._layout.shape[axis] if axis < source.ndim else 1
    if name == "index_copy":
        if source.ndim == 0 and count != 1:
            raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {count})")
        if source.ndim and input.ndim and source.ndim != input.ndim:
            raise IndexError(
                "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
                f"dimensionality ({source.ndim}), destination dimensionality ({input.ndim})"
            )
        if source.ndim and have != count:
            raise IndexError(f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) ({have})")
    elif name == "index_add":
        if input.ndim == 0 and count == 0:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        if source.ndim and have != count:
            raise RuntimeError(
                f"index_add_(): Number of indices ({count}) should be equal to source.size(dim): ({have}), for dim: {axis}"
            )
