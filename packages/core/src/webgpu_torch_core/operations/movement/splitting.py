"""Pieces of a dimension, and changing a tensor in place to another shape."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from ...dispatch.registry import operation
from ...dispatch.titles import Named, Positional, retitled
from ...ir.layouts import Layout, channels_last_strides, contiguous_strides, existing_dimension, layout, wrap_dimension
from ...record.changes import changed_tensor
from ...record.grad_mode import recording
from ...tensors.memory_formats import contiguous_format, has_memory_format, memory_format
from ...tensors.storage import check_countable, overflows
from ...tensors.tensor import Size, Tensor, storage_size
from ..common import attach, sizes_from
from ..creation.factories import empty
from ..in_place.writing import check_inference, check_leaf, write
from ..indexing.parts import embed
from .joining import cat, stack
from .views import slice_view, squeeze, t, transpose, unsqueeze

# Splitting


def _title_of_split(args: Positional, kwargs: Named) -> str:
    sizes = args[1] if len(args) > 1 else kwargs["split_size_or_sections"]
    return "SplitWithSizesBackward0" if isinstance(sizes, Sequence) else "SplitBackward0"


@operation("view", title=_title_of_split)
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
    source = tensor._layout
    before, after, strides = source.shape[:index], source.shape[index + 1 :], source.strides
    starts = [0, *accumulate(sizes)]
    layouts = [
        layout((*before, each, *after), strides, source.offset + start * strides[index])
        for each, start in zip(sizes, starts, strict=False)
    ]

    def embedded(grad: Tensor, number: int) -> Tensor:
        return embed(grad, source.shape, index, starts[number], 1)

    return _several(tensor, layouts, embedded, lambda grads: cat(grads, index))


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
    if size:
        return split(input, -(-size // chunks), index)
    return tuple(retitled(each, "SplitWithSizesBackward0") for each in split(input, [0] * chunks, index))


@operation("view", title="UnbindBackward0")
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Every position of a dimension, as separate tensors."""
    index = existing_dimension(wrap_dimension(dim, input.ndim), input.ndim)
    source = input._layout
    shape = (*source.shape[:index], *source.shape[index + 1 :])
    strides, step = (*source.strides[:index], *source.strides[index + 1 :]), source.strides[index]
    layouts = [layout(shape, strides, source.offset + each * step) for each in range(source.shape[index])]

    def embedded(grad: Tensor, number: int) -> Tensor:
        return embed(grad.unsqueeze(index), source.shape, index, number, 1)

    return _several(input, layouts, embedded, lambda grads: stack(grads, index))


def _several(
    input: Tensor, layouts: list[Layout], embedded: Callable[[Tensor, int], Tensor],
    joined: Callable[[list[Tensor]], Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return views that one function returns together: in-place writes into one could not give the others a gradient.

    Args:
        embedded: makes the gradient of one of them that of the input.
        joined: does so of the gradients of all.
    """
    storage, kind, place = input._storage, input.dtype, input.device
    made = tuple([Tensor._from_storage(storage, each, kind, place) for each in layouts])
    if storage.inference:
        # Neither gradients nor counts of writes are followed from it on.
        return made

    def run_backward(*grads: Tensor | None) -> Tensor:
        known = [(number, each) for number, each in enumerate(grads) if each is not None]
        if len(known) == 1:
            return embedded(known[0][1], known[0][0])
        like = known[0][1]
        return joined(
            [like.new_zeros(each.shape) if grad is None else grad for grad, each in zip(grads, layouts, strict=True)]
        )

    attach(made, "SplitBackward0", (input,), run_backward)
    base = input if input._base is None else input._base
    # Those made without recording are refused for that.
    origin = ("inference" if recording.inference else "no_grad",)
    version = base._storage.version
    for number, each in enumerate(made):
        each._base = base
        each._base_state = (version, *(("several", number) if recording.enabled else origin))
    return made


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


def become_view(self: Tensor, function: Callable[..., Tensor], *args: object, **kwargs: object) -> Tensor:
    """Let a tensor look at its elements as a view of it does, which a function returns, and return it."""
    check_leaf(self)
    check_inference(self)
    tracked = self.requires_grad
    result = function(self, *args, **kwargs)
    self._layout = result._layout
    self._storage.version += 1
    changed_tensor(self)
    if tracked and result._grad_fn is not None:
        self._rebase_history(result._grad_fn, result._output_number)
    return self


def _reshaping(function: Any, name: str) -> None:
    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return become_view(self, function, *args, **kwargs)

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"In-place version of :func:`{name[:-1]}`."
    in_place.takes_arguments_of = function  # type: ignore[attr-defined]
    setattr(Tensor, name, in_place)


for _function, _name in (
    (t, "t_"), (transpose, "transpose_"), (swapaxes, "swapaxes_"), (transpose, "swapdims_"), (squeeze, "squeeze_"), (unsqueeze, "unsqueeze_"),
):  # fmt: skip
    _reshaping(_function, _name)
