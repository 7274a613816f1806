"""Views: new shapes, strides and offsets over the same storage, and their gradients."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import by_dimension
from ...ir.dtypes import dtype as dtype_class
from ...ir.layouts import (
    Layout,
    broadcast_shapes,
    contiguous_layout,
    expand_layout,
    infer_size,
    layout,
    repeats,
    storage_extent,
    view_strides,
    wrap_dimension,
)
from ...notices import warn_of_transposition
from ...record.grad_mode import recording
from ...tensors.memory_formats import contiguous_format
from ...tensors.read_only import ReadOnly
from ...tensors.tensor import Tensor, storage_size
from ..common import as_dimensions, attach, needs_gradient, one_or_named, refuse_fewer_sizes, sizes_from

if TYPE_CHECKING:
    from ...ir.dtypes import dtype as dtype_class
    from ...tensors.type_aliases import Dimensions


def make_view(input: Tensor, shape: Layout, title: str, backward: Callable[[Tensor], Any], kind: Any = None) -> Tensor:
    """Return a view with a layout (and element type), whose gradient goes through ``backward``."""
    result = Tensor._from_storage(input._storage, shape, kind or input.dtype, input.device)
    if input._storage.inference:
        # Neither gradients nor counts of writes are followed from it on.
        return result
    base, origin = input._base, ()
    if base is None:
        base = input
    else:
        origin = input._base_state[1:]
    if needs_gradient(input):
        attach(result, title, (input,), backward)
    result._base = base
    if not recording.enabled:
        origin = ("inference" if recording.inference else "no_grad",)
    result._base_state = (base._storage.version, *origin)
    return result


@operation("view", namespace="method")
def view(self: Tensor, *shape: Any, dtype: dtype_class | None = None) -> Tensor:
    """The same elements in another shape, without moving data.

    Raises:
        RuntimeError: the strides do not allow it; use ``reshape``.
    """
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], dtype_class)):
        # A circle: that module imports this one.
        from .reinterpreting import view_as_type

        return view_as_type(self, dtype or shape[0])
    _, target = _viewed(self._layout, sizes_from(shape))
    if target is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    original = self._layout.shape
    return make_view(self, target, "ViewBackward0", lambda grad: grad.reshape(original))


@lru_cache(maxsize=8192)
def _viewed(source: Layout, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], Layout | None]:
    """Return the sizes with -1 replaced, and the layout that views ``source`` so, None where there is none."""
    shape = infer_size(sizes, source.numel)
    strides = view_strides(source, shape)
    return shape, None if strides is None else layout(shape, strides, source.offset)


@operation("view")
def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """The same elements in another shape; a view where the strides allow it, else a copy."""
    sizes, target = _viewed(input._layout, sizes_from(one_or_named("reshape", shape, named, "shape")))
    original = input._layout.shape
    if target is None:
        return copy_as(input, sizes, "UnsafeViewBackward0")
    title = "ViewBackward0" if input._layout.is_contiguous else "ReshapeAliasBackward0"
    return make_view(input, target, title, lambda grad: grad.reshape(original))


def copy_as(input: Tensor, sizes: tuple[int, ...], title: str) -> Tensor:
    """Return the elements in another shape and in new memory; nobody else holds it, so it is no view of anything."""
    original = input._layout.shape
    copied = input.clone(memory_format=contiguous_format)
    result = Tensor._from_storage(copied._storage, contiguous_layout(sizes), input.dtype, input.device)
    return attach(result, title, (copied,), lambda grad: grad.reshape(original))


@operation("view", namespace="method")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view with another tensor's shape."""
    return view(self, other._layout.shape)


@operation("view", namespace="method")
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in another tensor's shape."""
    return reshape(self, other._layout.shape)


@operation("view")
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` merged into one."""
    first, last = wrap_dimension(start_dim, input.ndim), wrap_dimension(end_dim, input.ndim)
    if input.ndim == 0:
        return reshape(input, (1,))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last:
        return input
    shape = input._layout.shape
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@operation("view")
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dimension split into several."""
    index = wrap_dimension(dim, input.ndim)
    if not input.ndim:
        raise RuntimeError("unflatten got an unexpected error:\nDimension specified as 0 but tensor has no dimensions")
    shape, wanted = input._layout.shape, sizes_from((sizes,))
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        parts = infer_size(wanted, shape[index])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {index} ({shape[index]}) in the "
            "input tensor"
        ) from None
    split = (*shape[:index], *parts, *shape[index + 1 :])
    return view(input, split) if input._layout.is_contiguous else reshape(input, split)


@operation("view")
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
    return view(input.contiguous(), (-1,))


@operation("view")
def permute(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Dimensions in another order."""
    inverse, target = _permuted(input._layout, sizes_from(one_or_named("permute", dims, named, "dims")))
    return make_view(input, target, "PermuteBackward0", lambda grad: permute(grad, inverse))


@lru_cache(maxsize=8192)
def _permuted(source: Layout, dims: tuple[int, ...]) -> tuple[tuple[int, ...], Layout]:
    """Return the order that brings dimensions back, and the layout with them in another order."""
    if len(dims) != source.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {source.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = tuple(wrap_dimension(each, source.ndim) for each in dims)
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    inverse = tuple(sorted(range(len(order)), key=lambda index: order[index]))
    return inverse, layout(
        tuple(source.shape[i] for i in order), tuple(source.strides[i] for i in order), source.offset
    )


@operation("view", aliases=("swapdims",))
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    first, second, target = _exchanged(input._layout, int(dim0), int(dim1))
    return make_view(input, target, "TransposeBackward0", lambda grad: transpose(grad, first, second))


@lru_cache(maxsize=8192)
def _exchanged(source: Layout, dim0: int, dim1: int) -> tuple[int, int, Layout]:
    """Return two dimensions counted from the first, and the layout with these exchanged."""
    first, second = wrap_dimension(dim0, source.ndim), wrap_dimension(dim1, source.ndim)
    other = {first: second, second: first}
    return first, second, _permuted(source, tuple([other.get(each, each) for each in range(source.ndim)]))[1]


@operation("view", title="TBackward0")
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; 0-d and 1-d tensors as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return (
        transpose(input, 0, 1) if input.ndim == 2 else make_view(input, input._layout, "TBackward0", lambda grad: grad)
    )


@operation("view", aliases=("moveaxis",))
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions moved to other positions."""
    first, last = ([each] if isinstance(each, int) else list(each) for each in (source, destination))
    sources, targets = ([wrap_dimension(each, input.ndim) for each in dims] for dims in (first, last))
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({first} dims) should contain the same number of dims as "
            f"destination ({last} dims)"
        )
    for name, chosen in (("source", sources), ("destination", targets)):
        if len(set(chosen)) != len(chosen):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(chosen)})")
    if not input.ndim:
        return make_view(input, input._layout, "AliasBackward0", lambda grad: grad)
    order = [-1] * input.ndim
    for start, end in zip(sources, targets, strict=True):
        order[end] = start
    rest = iter(index for index in range(input.ndim) if index not in sources)
    return permute(input, tuple(index if index >= 0 else next(rest) for index in order))


def _transposed(name: str, doc: str) -> None:
    def getter(self: Tensor) -> Tensor:
        if name == "T":
            if self.ndim != 2:
                warn_of_transposition(self.ndim)
            return permute(self, tuple(range(self.ndim))[::-1])
        if self.ndim == 0:
            return self
        if self.ndim < 2:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
            )
        return transpose(self, -2, -1)

    setattr(Tensor, name, ReadOnly(getter, doc, name))


_transposed("T", "Dimensions reversed.")
_transposed("mT", "The last two dimensions exchanged.")


@operation("view", namespace="method")
def expand(self: Tensor, *sizes: Any, implicit: bool = False, **named: Any) -> Tensor:
    """Size-1 dimensions repeated without copying."""
    given = sizes_from(one_or_named("expand", sizes, named, "size"))
    refuse_fewer_sizes(self, given)
    target = expand_layout(self._layout, given)
    original = self._layout.shape

    def run_backward(grad: Tensor) -> Any:
        # A circle: that module imports this one.
        from ..reduction.reductions import sum_to_size

        return sum_to_size(grad, original)

    return make_view(self, target, "ExpandBackward0", run_backward)


@operation("view", namespace="method")
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Expanded to another tensor's shape."""
    return expand(self, other._layout.shape)


@operation("view")
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """Expanded to a shape."""
    return expand(input, size)


@operation("view", method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors expanded to their common shape; those that have it are returned themselves."""
    tensors = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    shape = broadcast_shapes(*(each._layout.shape for each in tensors))
    return tuple(each if each._layout.shape == shape else expand(each, shape) for each in tensors)


@operation("view", title=by_dimension("Squeeze", 0, 1))
def squeeze(input: Tensor, dim: Dimensions = None) -> Tensor:
    """Dimensions of size 1 dropped: all, or the given ones."""
    shape = input._layout.shape
    if dim is None:
        chosen = range(input.ndim)
    else:
        chosen = () if isinstance(dim, tuple) and not dim else as_dimensions(dim, input.ndim)
    dropped = {index for index in chosen if input.ndim and shape[index] == 1}
    kept = [index for index in range(input.ndim) if index not in dropped]
    target = layout(tuple(shape[i] for i in kept), tuple(input._layout.strides[i] for i in kept), input._layout.offset)
    return make_view(input, target, "SqueezeBackward0", lambda grad: grad.reshape(shape))


@operation("view")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dimension of size 1 inserted."""
    limit = input.ndim + 1
    if not -limit <= dim < limit:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    index = dim + limit if dim < 0 else dim
    source = input._layout
    stride = source.shape[index] * source.strides[index] if index < source.ndim else 1
    target = layout(
        (*source.shape[:index], 1, *source.shape[index:]),
        (*source.strides[:index], stride, *source.strides[index:]),
        source.offset,
    )
    return make_view(input, target, "UnsqueezeBackward0", lambda grad: grad.squeeze(index))


@operation("view")
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view given by its sizes, strides and offset in the storage.

    Raises:
        RuntimeError: negative strides, or elements outside of the storage.
    """
    offset = input._layout.offset if storage_offset is None else operator.index(storage_offset)
    sizes, strides = tuple(map(operator.index, size)), tuple(map(operator.index, stride))
    if len(sizes) != len(strides):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(strides)} and {len(sizes)}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    target = layout(sizes, strides, offset)
    if any(each < 0 for each in target.strides):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if storage_extent(target) > storage_size(input):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
            f"{input.itemsize} requiring a storage size of {storage_extent(target) * input.itemsize} are out of bounds for "
            f"storage of size {storage_size(input) * input.itemsize}"
        )
    source = input._layout

    def run_backward(grad: Tensor) -> Any:
        return _strided_gradient(grad, target, source)

    return make_view(input, target, "AsStridedBackward0", run_backward)


def spread(grad: Tensor, target: Layout, extent: int) -> Tensor:
    """Return ``extent`` elements of a storage with a gradient added at a layout's places, each as often as it is shown."""
    # A circle: that module imports this one.
    from ..creation.ranges import arange

    index = arange(extent, device=grad.device).as_strided(target.shape, target.strides, target.offset).reshape(-1)
    return grad.new_zeros(extent).index_add(0, index, grad.reshape(-1))


def _strided_gradient(grad: Tensor, target: Layout, source: Layout) -> Tensor:
    """Scatter-add a strided view's gradient over the input's elements."""
    extent = max(storage_extent(target), storage_extent(source))
    whole = spread(grad, target, extent)
    if repeats(source):
        # Each of the input's elements at one place gets an equal share, so that together they get it once.
        whole = whole / spread(grad.new_ones(source.shape), source, extent).clamp(min=1)
    return whole.as_strided(source.shape, source.strides, source.offset).clone()


@operation("view", name="select")
def select_dimension(input: Tensor, dim: int, index: int) -> Tensor:
    """One position of a dimension, which is dropped."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    position = wrap_dimension(dim, input.ndim)
    size = input._layout.shape[position]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {position}"
        )
    start, source = int(index) % size, input._layout
    shape, strides = source.shape, source.strides
    target = layout(
        (*shape[:position], *shape[position + 1 :]),
        (*strides[:position], *strides[position + 1 :]),
        source.offset + start * strides[position],
    )

    def run_backward(grad: Tensor) -> Any:
        return _embedded(grad.unsqueeze(position), shape, position, start, 1)

    return make_view(input, target, "SelectBackward0", run_backward)


@operation("view")
def narrow(input: Tensor, dim: int, start: Tensor | int, length: int) -> Tensor:
    """``length`` positions of a dimension from ``start`` on.

    Raises:
        RuntimeError: a scalar input, a negative length, or positions past the end.
        IndexError: a start outside of the dimension.
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != 1):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    length = operator.index(length)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    position = wrap_dimension(dim, input.ndim)
    size = input._layout.shape[position]
    start = int(start)
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [-{size}, {size}], but got {start})")
    first = start + size if start < 0 else start
    if first + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice_view(input, position, first, length, 1)


def slice_view(input: Tensor, dim: int, start: int, length: int, step: int) -> Tensor:
    """Return ``length`` positions of a dimension from ``start`` in steps (all in range)."""
    source = input._layout
    shape, strides = list(source.shape), list(source.strides)
    offset = source.offset + start * strides[dim]
    shape[dim] = length
    strides[dim] *= step
    target = layout(tuple(shape), tuple(strides), offset)
    full = source.shape

    def run_backward(grad: Tensor) -> Any:
        return _embedded(grad, full, dim, start, step)

    return make_view(input, target, "SliceBackward0", run_backward)


def _embedded(grad: Tensor, shape: tuple[int, ...], dim: int, start: int, step: int) -> Tensor:
    """Return the gradient of positions of a dimension among zeros."""
    # A circle: that module imports this one.
    from ..indexing.parts import embed

    return embed(grad, shape, dim, start, step)


@operation("view")
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions, as the last dimension."""
    first, second = wrap_dimension(dim1, input.ndim), wrap_dimension(dim2, input.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    source, offset = input._layout, operator.index(offset)
    rows, columns = source.shape[first], source.shape[second]
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    start = offset * source.strides[second] if offset >= 0 else -offset * source.strides[first]
    kept = [index for index in range(source.ndim) if index not in (first, second)]
    target = layout(
        (*(source.shape[i] for i in kept), length),
        (*(source.strides[i] for i in kept), source.strides[first] + source.strides[second]),
        source.offset + (start if length else 0),
    )
    shape = source.shape

    def run_backward(grad: Tensor) -> Any:
        # A circle: that module imports this one.
        from ..in_place.writing import write

        whole = grad.new_zeros(shape)
        write(diagonal(whole, offset, first, second), grad.detach())
        return attach(whole, "DiagonalBackwardBackward0", (grad,), lambda each: diagonal(each, offset, first, second))

    return make_view(input, target, "DiagonalBackward0", run_backward)


@operation("view", namespace="method")
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Sliding windows of a dimension, as a new last dimension."""
    position, size, step = wrap_dimension(dimension, self.ndim), operator.index(size), operator.index(step)
    source = self._layout
    have = source.shape[position] if self.ndim else 1
    if size > have:
        raise RuntimeError(f"maximum size for tensor at dimension {position} is {have} but size is {size}")
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    stride = source.strides[position] if self.ndim else 1
    count = (have - size) // step + 1
    counted = (count,) if self.ndim else ()
    shape = (*source.shape[:position], *counted, *source.shape[position + 1 :], size)
    strides = (*source.strides[:position], *(stride * step for _ in counted), *source.strides[position + 1 :], stride)
    target = layout(shape, strides, source.offset)

    def run_backward(grad: Tensor) -> Any:
        # Of a row-major input: what the strides of this one repeat is the gradient of what repeated it.
        plain = contiguous_layout(source.shape)
        step_ = plain.strides[position] if plain.ndim else 1
        steps = (*plain.strides[:position], *(step_ * step for _ in counted), *plain.strides[position + 1 :], step_)
        return _strided_gradient(grad, layout(shape, steps, 0), plain)

    return make_view(self, target, "UnfoldBackward0", run_backward)
