"""Pieces of a dimension, and changing a tensor in place to another shape."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...dispatch.registry import operation
from ...ir.layouts import channels_last_strides, contiguous_strides, existing_dimension, layout, wrap_dimension
from ...record.changes import changed_tensor
from ...record.grad_mode import recording
from ...tensors.memory_formats import contiguous_format, has_memory_format, memory_format
from ...tensors.storage import check_countable, overflows
from ...tensors.tensor import Size, Tensor, new_tensor, storage_size
from ..common import needs_gradient, sizes_from
from ..creation.factories import empty
from ..in_place.writing import check_inference, check_leaf, write
from .views import select_dimension, slice_view, squeeze, t, transpose, unsqueeze

# Splitting


@operation("view", title="SplitBackward0")
def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of a dimension: of one size, or of the given sizes."""
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    index = wrap_dimension(dim, tensor.ndim)
    size = tensor._layout.shape[index]
    if not isinstance(split_size_or_sections, Sequence):
        step = operator.index(split_size_or_sections)
        if step < 0 or (step == 0 and size):
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
        sizes = [min(step, size - start) for start in range(0, size, step)] if size else [0]
    else:
        sizes = list(sizes_from((split_size_or_sections,)))
        if any(each < 0 for each in sizes):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
            )
        if sum(sizes) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {index}), "
                f"but got split_sizes={sizes}"
            )
    pieces, start = [], 0
    for each in sizes:
        pieces.append(slice_view(tensor, index, start, each, 1))
        start += each
    return _several(pieces)


@operation("view", title="SplitBackward0")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` equal pieces of a dimension (the last may be smaller)."""
    chunks = operator.index(chunks)
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    index = wrap_dimension(dim, input.ndim)
    size = input._layout.shape[index]
    # Of nothing there are as many pieces as are asked for.
    return split(input, -(-size // chunks) if size else [0] * chunks, index)


@operation("view", title="UnbindBackward0")
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Every position of a dimension, as separate tensors."""
    index = existing_dimension(wrap_dimension(dim, input.ndim), input.ndim)
    return _several(_all_positions(input, index))


def _all_positions(input: Tensor, dim: int) -> list[Tensor]:
    """Return every position of a dimension, which is dropped, as :func:`select_dimension` does one."""
    source = input._layout
    size = source.shape[dim]
    if not size or needs_gradient(input):
        return [select_dimension(input, dim, each) for each in range(size)]
    shape, strides = (each[:dim] + each[dim + 1 :] for each in (source.shape, source.strides))
    first = select_dimension(input, dim, 0)
    views, storage, kind, place, step = [first], input._storage, input.dtype, input.device, source.strides[dim]
    for number in range(1, size):
        each = new_tensor(storage, layout(shape, strides, source.offset + number * step), kind, place)
        if first._base is not None:
            each._base, each._base_state = first._base, first._base_state
        views.append(each)
    return views


def _several(views: list[Tensor]) -> tuple[Tensor, ...]:
    """Mark views that one function returns together: in-place writes into one could not give the others a gradient."""
    for number, each in enumerate(views):
        # Views of what inference made have no history to keep apart; those made without recording are refused for that.
        if each._base is not None and recording.enabled:
            each._base_state = (each._base_state[0], "several", number)
    return tuple(views)


@operation("view", namespace="method")
def contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """The tensor with elements in row-major order, or in another memory format: itself where they already are."""
    return self if has_memory_format(self._layout, memory_format) else self.clone(memory_format=memory_format)


def _strides_of(shape: Size, memory_format: memory_format | None) -> tuple[int, ...]:
    if memory_format is None or memory_format is contiguous_format:
        return contiguous_strides(shape)
    return channels_last_strides(shape)


@operation("view", namespace="method")
def resize_(self: Tensor, *sizes: Any, memory_format: memory_format | None = None) -> Tensor:
    """Change shape in place, growing the storage where needed; new elements are undefined."""
    if self.requires_grad and not recording.inference:
        raise RuntimeError("cannot resize variables that require grad")
    check_inference(self)
    shape = Size(sizes_from(sizes))
    if any(each < 0 for each in shape):
        raise RuntimeError(f"resize_(): a size is negative: {list(shape)}")
    if memory_format is None and shape == self.shape:
        # However it lies: nothing is written, and no write is counted.
        return self
    if shape.numel() >> 63 or overflows(shape, 64):
        raise RuntimeError("numel: integer multiplication overflow")
    check_countable(shape, shape.numel(), self.dtype)
    # The first element stays where it is in memory.
    offset, count = self._layout.offset, shape.numel()
    needed = offset + count if count else 0
    have = storage_size(self)
    if needed > have:
        grown = empty(needed, dtype=self.dtype, device=self.device)
        if have:
            old = Tensor._from_storage(self._storage, layout((have,), (1,)), self.dtype, self.device)

            write(slice_view(grown, 0, 0, have, 1), old.detach())
        self._storage.value = grown._storage.value
    self._storage.version += 1
    self._layout = layout(tuple(shape), _strides_of(shape, memory_format), offset)
    changed_tensor(self)
    return self


# In-place changes of shape: the tensor looks at its elements in another way, the storage stays.


@operation("view")
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two dimensions exchanged: NumPy's name of :func:`transpose`."""
    return transpose(input, axis0, axis1)


def _reshaping(function: Any, name: str) -> None:
    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_leaf(self)
        check_inference(self)
        edge_tracked = self.requires_grad
        result = function(self, *args, **kwargs)
        self._layout = result._layout
        self._storage.version += 1
        changed_tensor(self)
        if edge_tracked and result._grad_fn is not None:
            self._rebase_history(result._grad_fn, result._output_number)
        return self

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"In-place version of :func:`{name[:-1]}`."
    in_place.takes_arguments_of = function  # type: ignore[attr-defined]
    setattr(Tensor, name, in_place)


for _function, _name in (
    (t, "t_"), (transpose, "transpose_"), (swapaxes, "swapaxes_"), (transpose, "swapdims_"), (squeeze, "squeeze_"), (unsqueeze, "unsqueeze_"),
):  # fmt: skip
    _reshaping(_function, _name)
