"""Joining and rearranging: cat, stack, repeat, flip, roll, tril/triu, padding with constants."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import Named, Positional
from ...dispatch.type_rules import with_type_rule
from ...ir import expression as ir
from ...ir.dtypes import compute_dtype, dtype, int32, promote_types
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import (
    Layout,
    channels_last_strides,
    contiguous_layout,
    contiguous_strides,
    existing_dimension,
    layout,
    wrap_dimension,
)
from ...record.devices import MetaEngine
from ...replay.recipes import remembered
from ...tensors.memory_formats import contiguous_format, dense_layout
from ...tensors.tensor import Tensor
from ..common import (
    as_dimension,
    attach,
    attach_zeros,
    check_apart,
    image_order,
    kernel_cache,
    no_view,
    one_or_named,
    record,
    sizes_from,
    type_title,
)
from ..creation.ranges import arange
from ..elementwise.choosing import where
from ..outputs import into
from .views import copy_as, slice_view

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions

#: inputs joined by one kernel of a device of its own, where it takes longer to compile the more there are; the rest in more rounds
FAN_IN = 6


def element_index(source: Layout, coordinates: list[Any]) -> Any:
    """Return the storage index of an element given its coordinate expressions."""
    index: Any = ir.constant(source.offset, int32)
    for stride, position in zip(source.strides, coordinates, strict=True):
        if stride:
            index = index + (position if stride == 1 else position * stride)
    return index


def clamped(position: Any, size: int) -> Any:
    """Return a coordinate kept inside a dimension, for loads whose result a select then drops."""
    return ir.apply("minimum", ir.apply("maximum", position, 0), max(size - 1, 0))


@kernel_cache
def cat_kernel(
    layouts: tuple[Layout, ...], numels: tuple[int, ...], kind: dtype, dim: int, target: Layout
) -> Pointwise:
    """Return the kernel that picks each element from the input its coordinate falls into."""
    shape = target.shape
    starts = [0, *accumulate(each.shape[dim] for each in layouts)]

    def piece(first: int, last: int) -> ir.Expression:
        # By halves: what is known of a part of the result leaves few of them to look at.
        if first < last:
            middle = (first + last + 1) // 2
            return ir.select(ir.coordinate(dim) < starts[middle], piece(first, middle - 1), piece(middle, last))
        coordinates: list[Any] = [ir.coordinate(index) for index in range(len(shape))]
        coordinates[dim] = clamped(coordinates[dim] - starts[first], layouts[first].shape[dim])
        return ir.load_at(first, element_index(layouts[first], coordinates), kind)

    value = piece(0, len(layouts) - 1)
    return Pointwise(
        tuple(Operand(kind, each) for each in numels), (Output(kind, target.numel, None),), (), "cat", shape,
        (Store(0, 0, target.strides, value),),
    )  # fmt: skip


def require_tensors(tensors: tuple[Any, ...]) -> None:
    """Raise PyTorch's TypeError where one of several things is no tensor."""
    for position, each in enumerate(tensors):
        if not isinstance(each, Tensor):
            raise TypeError(f"expected Tensor as element {position} in argument 0, but got {type(each).__name__}")


def several(function: str, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return several tensors, of any shapes, as a tuple.

    Raises:
        TypeError: one tensor stands in their place.
    """
    if isinstance(tensors, Tensor):
        raise TypeError(f"{function}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    return tuple(tensors)


@operation("indexed", method=False, aliases=("concat", "concatenate"))
@remembered
def cat(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along a dimension.

    Raises:
        ValueError: no tensors.
        TypeError: something that is no tensor.
        RuntimeError: sizes that differ in another dimension.
    """
    tensors = several("cat", tensors)
    require_tensors(tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    check_apart(out, *tensors)
    kind = tensors[0].dtype
    for each in tensors[1:]:
        kind = promote_types(kind, each.dtype)
    if out is not None and kind.category > out.dtype.category:
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {type_title(out)}")
    # PyTorch lets 1-d empty tensors take part in any cat.
    useful = [each for each in tensors if not (each.ndim == 1 and each.numel() == 0)] or list(tensors[:1])
    if not useful[0].ndim:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    # Nothing but empty ones may be joined along any dimension.
    index = 0 if not (useful[0].ndim > 1 or useful[0].numel()) else wrap_dimension(dim, useful[0].ndim)
    _check_joinable(useful, index)
    pieces = [each if each.dtype is kind else each.to(kind) for each in useful]
    filled = [each for each in pieces if each.numel()]
    if filled:
        empty = [each for each in tensors if not each.numel()]
        # What has no elements is in row-major order, too.
        result = attach_zeros(_join(filled, index, bool(empty)), "CatBackward0", empty)
    else:
        left_out = [each for each in tensors if all(each is not other for other in useful)]
        result = attach_zeros(_join_nothing(pieces, index), "CatBackward0", left_out)
    return into(result, out)


def _check_joinable(tensors: list[Tensor], dim: int) -> None:
    first = tensors[0]
    if first.ndim == 0:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    for position, each in enumerate(tensors[1:], 1):
        if each.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {each.ndim}")
        for axis, (have, size) in enumerate(zip(each._layout.shape, first._layout.shape, strict=True)):
            if axis != dim and have != size:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {size} but got size {have} for "
                    f"tensor number {position} in the list."
                )


def _join_nothing(pieces: list[Tensor], dim: int) -> Tensor:
    """Join tensors without elements: only the sizes add up."""
    sizes = [each._layout.shape[dim] for each in pieces]
    shape = list(pieces[0]._layout.shape)
    shape[dim] = sum(sizes)
    result = pieces[0].detach().new_zeros(shape)
    return attach(result, "CatBackward0", pieces, lambda grad: grad.split(sizes, dim))


@with_type_rule("join_pieces")
def _join(pieces: list[Tensor], dim: int, row_major: bool = False) -> Tensor:
    engine = pieces[0]._engine
    # One binding is the result's.
    most = max(engine.maximum_bindings - 1, 2)
    if engine.__class__ is not MetaEngine and engine.device.asynchronous:
        most = min(most, FAN_IN)
    while len(pieces) > most:
        pieces = [_join(pieces[start : start + most], dim, row_major) for start in range(0, len(pieces), most)]
    layouts = tuple(each._layout for each in pieces)
    target = _joined_layout(layouts, dim, row_major)
    if len(pieces) == 1:
        return pieces[0].clone(memory_format=contiguous_format if target.is_contiguous else None)
    kernel = cat_kernel(layouts, tuple(each._storage.value.numel for each in pieces), pieces[0].dtype, dim, target)
    result = record(kernel, pieces, (), (target,))
    sizes = [each._layout.shape[dim] for each in pieces]

    def run_backward(grad: Tensor) -> Any:
        return grad.split(sizes, dim)

    return attach(result, "CatBackward0", pieces, run_backward)


def _joined_layout(layouts: tuple[Layout, ...], dim: int, row_major: bool) -> Layout:
    """Return the layout of tensors joined: channels-last where all of them are, else row-major."""
    shape = list(layouts[0].shape)
    shape[dim] = sum(each.shape[dim] for each in layouts)
    if row_major or any(each.is_contiguous for each in layouts):
        return contiguous_layout(tuple(shape))
    for each in layouts:
        if each.ndim not in (4, 5) or each.strides != channels_last_strides(each.shape):
            return contiguous_layout(tuple(shape))
    return layout(tuple(shape), channels_last_strides(shape))


@operation("composite", method=False, title="StackBackward0")
@remembered
def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    tensors = several("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    require_tensors(tensors)
    index = wrap_dimension(dim, tensors[0].ndim + 1)
    for position, each in enumerate(tensors[1:], 1):
        if each._layout.shape != tensors[0]._layout.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(each.shape)} at entry {position}"
            )
    shape = tensors[0]._layout.shape
    if out is None and index < len(shape) and not tensors[0]._layout.is_contiguous:
        # Joined and then split keeps channels-last, as PyTorch does.
        return no_view(cat(tensors, index).view(*shape[:index], len(tensors), *shape[index:]))
    return cat([each.unsqueeze(index) for each in tensors], index, out=out)


def _stack_along(name: str, doc: str, dim: int, least: int, aliases: tuple[str, ...] = ()) -> None:
    def function(tensors: Any, *, out: Tensor | None = None) -> Tensor:
        raised = [_at_least(each, least) for each in several(name, tensors)]
        if not raised:
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        return cat(raised, 0 if dim == 1 and raised[0].ndim == 1 else dim, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    operation("composite", method=False, aliases=aliases)(function)


def _at_least(input: Tensor, ndim: int) -> Tensor:
    while input.ndim < ndim:
        input = input.unsqueeze(0) if input.ndim < 2 else input.unsqueeze(-1)
    return input


_stack_along("hstack", "Tensors joined horizontally.", 1, 1)
_stack_along("vstack", "Tensors joined vertically.", 0, 2, ("row_stack",))


@kernel_cache
def gather_shape_kernel(name: str, source: Layout, numel: int, kind: dtype, target: Layout, moves: Any) -> Pointwise:
    """Return the kernel reading, along each dimension, position ``(coordinate * scale + shift) mod size``.

    ``moves`` lists (scale, shift, wrap) per dimension; without ``wrap`` positions are in range by construction.
    """
    coordinates: list[Any] = []
    for index, (scale, shift, wraps) in enumerate(moves):
        position: Any = ir.coordinate(index)
        if scale != 1:
            position = position * scale
        if shift:
            position = position + shift
        coordinates.append(position % source.shape[index] if wraps else position)
    value = ir.load_at(0, element_index(source, coordinates), kind)
    store = Store(0, 0, target.strides, value)
    return Pointwise((Operand(kind, numel),), (Output(kind, target.numel, None),), (), name, target.shape, (store,))


@operation("indexed")
def flip(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Dimensions reversed (a copy)."""
    given = sizes_from(one_or_named("flip", dims, named, "dims"))
    chosen = [wrap_dimension(each, input.ndim) for each in given]
    if len(set(chosen)) != len(chosen):
        raise RuntimeError("dim appears multiple times in the list of dims")
    shape = input._layout.shape
    moves = tuple((-1, size - 1, False) if index in chosen else (1, 0, False) for index, size in enumerate(shape))
    target = dense_layout(input._layout, None)
    kernel = gather_shape_kernel("flip", input._layout, input._storage.value.numel, input.dtype, target, moves)
    return attach(record(kernel, (input,), (), (target,)), "FlipBackward0", (input,), lambda grad: flip(grad, chosen))


@operation("indexed", title="RollBackward0")
@remembered
def roll(input: Tensor, shifts: int | Sequence[int], dims: Dimensions = None) -> Tensor:
    """Elements shifted along dimensions, wrapping around.

    Raises:
        RuntimeError: no shifts, or not one for each dimension.
    """
    amounts = [operator.index(each) for each in (shifts if isinstance(shifts, Sequence) else (shifts,))]
    if not amounts:
        raise RuntimeError("`shifts` required")
    given = (dims,) if isinstance(dims, int) else () if dims is None else tuple(dims)
    if not given and len(amounts) == 1:
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    if len(amounts) != len(given):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(amounts)}, dims:{len(given)}")
    chosen = [existing_dimension(as_dimension(each, not place), input.ndim) for place, each in enumerate(given)]
    if not input.numel():
        return input.clone()
    shape = input._layout.shape
    total = [0] * input.ndim
    for amount, dim in zip(amounts, chosen, strict=True):
        total[dim] += amount
    moves = tuple(
        (1, -shift % size if size else 0, bool(size and shift % size)) for shift, size in zip(total, shape, strict=True)
    )
    target = _joined_layout((input._layout,), 0, False)
    kernel = gather_shape_kernel("roll", input._layout, input._storage.value.numel, input.dtype, target, moves)
    back = tuple(-each for each in amounts)
    return attach(
        record(kernel, (input,), (), (target,)), "RollBackward0", (input,), lambda grad: roll(grad, back, tuple(chosen))
    )


@operation("indexed", namespace="method", title="RepeatBackward0")
@remembered
def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """The tensor tiled ``repeats`` times along each dimension; always in new memory."""
    counts = sizes_from(repeats)
    if len(counts) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    source = self.reshape((1,) * (len(counts) - self.ndim) + tuple(self._layout.shape))
    split = [part for count, size in zip(counts, source._layout.shape, strict=True) for part in (count, size)]
    spread = source.reshape([part for size in source._layout.shape for part in (1, size)]).expand(split)
    sizes = tuple(count * size for count, size in zip(counts, source._layout.shape, strict=True))
    return copy_as(spread, sizes, "RepeatBackward0")


@operation("composite", title="RepeatBackward0")
def tile(input: Tensor, *dims: Any) -> Tensor:
    """The tensor tiled, missing leading repeats being 1."""
    counts = sizes_from(dims)
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


@kernel_cache
def triangle_kernel(source: Layout, numel: int, kind: dtype, diagonal: int, upper: bool) -> Pointwise:
    """Return the kernel that keeps one side of a diagonal of the last two dimensions."""
    row, column = ir.coordinate(source.ndim - 2), ir.coordinate(source.ndim - 1)
    distance = column - row
    keep = ir.constant(diagonal, int32) <= distance if upper else distance <= diagonal
    leaf = ir.load(0, source.offset, source.strides, kind)
    store = Store(0, 0, contiguous_strides(source.shape), ir.select(keep, leaf, ir.constant(0, kind)))
    name = "triu" if upper else "tril"
    return Pointwise((Operand(kind, numel),), (Output(kind, source.numel, None),), (), name, source.shape, (store,))


@with_type_rule("triangle")
def _triangle(input: Tensor, diagonal: int, upper: bool) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError(f"{'triu' if upper else 'tril'}: input tensor must have at least 2 dimensions")
    kernel = triangle_kernel(input._layout, input._storage.value.numel, input.dtype, int(diagonal), upper)
    title = "TriuBackward0" if upper else "TrilBackward0"
    return attach(
        record(kernel, (input,), (), (input._layout.shape,)),
        title,
        (input,),
        lambda grad: _triangle(grad, diagonal, upper),
    )


@operation("indexed")
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of matrices, zeros above the diagonal."""
    return into(_triangle(input, diagonal, False), out, True)


@operation("indexed")
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of matrices, zeros below the diagonal."""
    return into(_triangle(input, diagonal, True), out, True)


@kernel_cache
def pad_kernel(
    source: Layout, numel: int, kind: dtype, before: tuple[int, ...], target: Layout, step: tuple[int, ...]
) -> Pointwise:
    """Return the kernel that places an operand inside a larger box of one run-time number, of a dense layout.

    Along each dimension the operand's position ``p`` lands at ``before + step * p``; negative ``before`` crops.
    """
    inside: Any = None
    coordinates: list[Any] = []
    shape = target.shape
    for index, (start, size, total, stride) in enumerate(zip(before, source.shape, shape, step, strict=True)):
        position: Any = ir.coordinate(index) - start if start else ir.coordinate(index)
        if start == 0 and stride == 1 and total == size:
            coordinates.append(position)
            continue
        tests = []
        if start > 0:
            tests.append(ir.constant(0, int32) <= position)
        if start + stride * (size - 1) + 1 < total or stride > 1:
            tests.append(position <= stride * (size - 1))
        if stride > 1:
            tests.append(ir.binary("equal", position % stride, 0))
            position = position // stride
        for test in tests:
            inside = test if inside is None else inside & test
        coordinates.append(clamped(position, size))
    element = ir.load_at(0, element_index(source, coordinates), kind)
    number = compute_dtype(kind)
    fill = ir.cast(ir.parameter(0, number), kind)
    value = element if inside is None else ir.select(inside, element, fill)
    return Pointwise(
        (Operand(kind, numel),), (Output(kind, target.numel, None),), (number,), "constant_pad", shape,
        (Store(0, 0, target.strides, value),),
    )  # fmt: skip


@with_type_rule("place_inside")
def _placed(
    input: Tensor, before: tuple[int, ...], shape: tuple[int, ...], value: Any, steps: tuple[int, ...], ordered: bool
) -> Tensor:  # fmt: skip
    """Return what :func:`place_inside` does, without gradient."""
    target = dense_layout(contiguous_layout(shape), image_order(input) if ordered else contiguous_format)
    kernel = pad_kernel(input._layout, input._storage.value.numel, input.dtype, before, target, steps)
    number = (
        value
        if compute_dtype(input.dtype).category >= 2
        else (bool(value) if compute_dtype(input.dtype).category == 0 else int(value))
    )
    return record(kernel, (input,), (number,), (target,))


def place_inside(
    input: Tensor, before: tuple[int, ...], shape: tuple[int, ...], value: Any = 0, step: Any = None,
    ordered: bool = False,
) -> Tensor:  # fmt: skip
    """Return a box of ``value`` with the input placed in it (or cropped to it), row-major or ``ordered`` in memory as the input."""
    original = input._layout.shape
    if input.numel() == 0:
        filled = input.new_full(shape, value)
        return attach(filled, "ConstantPadNdBackward0", (input,), lambda grad: grad.new_zeros(original))
    steps = tuple(step) if step is not None else (1,) * input.ndim

    def run_backward(grad: Tensor) -> Any:
        # Where neighbours stay neighbours, some may have been left out, or all; what was spread lies inside the box.
        whole = [step == 1 for step in steps]
        starts = tuple(-start if each else 0 for start, each in zip(before, whole, strict=True))
        sizes = tuple(size if each else wide for size, wide, each in zip(original, shape, whole, strict=True))
        grad = padded(grad, starts, sizes, ordered)
        for dim, (start, size, stride) in enumerate(zip(before, original, steps, strict=True)):
            grad = grad if stride == 1 else slice_view(grad, dim, start, size, stride)
        return grad

    result = _placed(input.detach(), before, shape, value, steps, ordered)
    return attach(result, "ConstantPadNdBackward0", (input,), run_backward)


def padded(input: Tensor, before: tuple[int, ...], shape: tuple[int, ...], ordered: bool = True) -> Tensor:
    """Return :func:`place_inside` of zeros; where the box lies inside the input, its dimensions keep their order in memory."""
    original = input._layout.shape
    if not all(0 <= -first <= wide - size for first, size, wide in zip(before, shape, original, strict=True)):
        return place_inside(input, before, shape, ordered=ordered)
    places = tuple(slice(-first, size - first) for first, size in zip(before, shape, strict=True))
    back = tuple(-first for first in before)
    result = input.detach()[places].clone()
    return attach(result, "ConstantPadNdBackward0", (input,), lambda grad: padded(grad, back, original, ordered))


def _diagonal_title(args: Positional, kwargs: Named) -> str:
    return "DiagEmbedBackward0" if (args[0] if args else kwargs["input"]).ndim == 1 else "DiagonalBackward0_copy"


@operation("composite", title=_diagonal_title)
@remembered
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    if input.ndim == 1:
        return into(_diagonal_matrix(input, diagonal), out, True)
    return into(input.diagonal(diagonal).clone(memory_format=contiguous_format), out, True)


def _diagonal_matrix(values: Tensor, diagonal: int) -> Tensor:
    size = values.shape[0] + abs(diagonal)
    column = place_inside(values, (max(-diagonal, 0),), (size,)).unsqueeze(1)
    positions = arange(size, device=values.device)
    return where(positions - positions.unsqueeze(1) == diagonal, column, 0).to(values.dtype)
