"""Shapes, strides and offsets: how a tensor lies in its storage, and the arithmetic on it.

A :class:`Layout` is interned: equal layouts are one object, so caches compare them by identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

Shape = tuple[int, ...]


class Layout:
    """Shape, strides and storage offset of a view, all counted in elements."""

    __slots__ = ("is_contiguous", "ndim", "numel", "offset", "shape", "strides")

    shape: Shape
    strides: Shape
    offset: int
    numel: int
    ndim: int
    is_contiguous: bool

    def __repr__(self) -> str:
        return f"Layout(shape={self.shape}, strides={self.strides}, offset={self.offset})"

    def __reduce__(self) -> tuple[object, tuple[Shape, Shape, int]]:
        return layout, (self.shape, self.strides, self.offset)


_interned: dict[tuple[Shape, Shape, int], Layout] = {}
_contiguous: dict[Shape, Layout] = {}
# Interning must not let a program with ever new shapes grow without bound; identity is a speed-up, not a need.
_INTERN_LIMIT = 1 << 16


def layout(shape: Shape, strides: Shape, offset: int = 0) -> Layout:
    """Return the interned layout with these sizes, strides and offset."""
    key = (shape, strides, offset)
    found = _interned.get(key)
    if found is None:
        if len(_interned) > _INTERN_LIMIT:
            _interned.clear()
            _contiguous.clear()
        found = Layout()
        found.shape, found.strides, found.offset = shape, strides, offset
        found.ndim = len(shape)
        found.numel = number_of_elements(shape)
        found.is_contiguous = is_contiguous(shape, strides)
        _interned[key] = found
    return found


def contiguous_layout(shape: Shape) -> Layout:
    """Return the row-major layout of a shape at offset 0.

    Raises:
        RuntimeError: a size is negative.
    """
    found = _contiguous.get(shape)
    if found is None:
        if any(size < 0 for size in shape):
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
        found = _contiguous[shape] = layout(shape, contiguous_strides(shape))
    return found


def number_of_elements(shape: Iterable[int]) -> int:
    """Return the product of the sizes; 1 for a 0-d shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Return row-major strides; a dimension of size 0 counts as 1, as in PyTorch."""
    strides = [1] * len(shape)
    for index in range(len(shape) - 2, -1, -1):
        strides[index] = strides[index + 1] * max(shape[index + 1], 1)
    return tuple(strides)


def channels_last_strides(shape: Sequence[int]) -> Shape:
    """Return strides with the channels (dimension 1) next to each other; a dimension of size 0 counts as 1."""
    strides, step = [0] * len(shape), 1
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether elements follow each other in row-major order (strides of size-1 dimensions are free)."""
    expected = 1
    if 0 in shape:
        return True
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


@lru_cache(maxsize=1 << 12)
def is_dense(source: Layout) -> bool:
    """Return whether elements lie next to each other without gaps or overlaps, in some order of the dimensions."""
    order = sorted(
        (index for index in range(source.ndim) if source.shape[index] != 1), key=lambda i: -source.strides[i]
    )
    sizes = [source.shape[index] for index in order]
    return tuple(source.strides[index] for index in order) == contiguous_strides(sizes)


def same_places(one: Layout, other: Layout) -> bool:
    """Return whether two layouts of one shape put elements at the same distances: strides of a single one tell nothing."""
    return all(
        size == 1 or first == second for size, first, second in zip(one.shape, one.strides, other.strides, strict=True)
    )


def dense_strides(shape: Shape, *operands: Shape) -> Shape:
    """Return strides without gaps, dimensions in the order that operands' strides (broadcast to ``shape``) put them in.

    The first operand that tells two dimensions apart decides; an insertion sort, because strides of 0 tell nothing apart and
    so make no order (as PyTorch's TensorIterator).
    """

    def inner(first: int, second: int) -> int:
        for strides in operands:
            one, other = strides[first], strides[second]
            if one and other and one != other:
                return -1 if one < other else 1
            if one and other and shape[first] > shape[second]:
                return 1
        return 0

    order = list(range(len(shape)))[::-1]
    for start in range(1, len(order)):
        place = start
        for other in range(start - 1, -1, -1):
            found = inner(order[other], order[place])
            if found < 0:
                break
            if found > 0:
                order[other], order[place] = order[place], order[other]
                place = other
    if order == list(range(len(shape)))[::-1]:
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for index in order:
        strides[index] = step
        step *= shape[index]
    return tuple(strides)


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """Return the shape all the given shapes broadcast to.

    Raises:
        RuntimeError: two sizes differ and neither is 1.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        # From the last dimension on: which of several mismatches is told is PyTorch's choice.
        for index, size in zip(range(rank - 1, -1, -1), reversed(shape), strict=False):
            if size == 1 or size == result[index]:
                continue
            if result[index] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({result[index]}) must match the size of tensor b ({size}) "
                    f"at non-singleton dimension {index}"
                )
            result[index] = size
    return tuple(result)


def broadcast_strides(source: Layout, shape: Shape) -> Shape:
    """Return the strides with which ``source`` is read over ``shape``: 0 where it is broadcast."""
    if source.shape == shape:
        return source.strides
    missing = len(shape) - source.ndim
    return (0,) * missing + tuple(
        0 if size == 1 and target != 1 else stride
        for size, stride, target in zip(source.shape, source.strides, shape[missing:], strict=True)
    )


def expand_layout(source: Layout, sizes: Sequence[int]) -> Layout:
    """Return the layout of ``source.expand(sizes)``; -1 keeps a size.

    Raises:
        RuntimeError: a size cannot be expanded.
    """
    missing = len(sizes) - source.ndim
    if missing < 0:
        raise RuntimeError(
            f"expand(sizes={list(sizes)}): the number of sizes provided ({len(sizes)}) must be greater or equal to "
            f"the number of dimensions in the tensor ({source.ndim})"
        )
    shape, strides = list(sizes), [0] * len(sizes)
    for index in range(len(sizes) - 1, -1, -1):
        size, place = sizes[index], index - missing
        if place >= 0:
            have, stride = source.shape[place], source.strides[place]
        else:
            # A new dimension of size 1 has the stride that a row-major one would have, as in PyTorch.
            have, stride = 1, shape[index + 1] * strides[index + 1] if source.ndim else 0
            if size < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing dimension {index}"
                )
        if size in (-1, have):
            shape[index], strides[index] = have, stride
        elif have != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({have}) at non-singleton "
                f"dimension {index}.  Target sizes: {list(sizes)}.  Tensor sizes: {list(source.shape)}"
            )
    return layout(tuple(shape), tuple(strides), source.offset)


def infer_size(sizes: Sequence[int], numel: int) -> Shape:
    """Return ``sizes`` with its single -1 replaced so that the product is ``numel``.

    Raises:
        RuntimeError: more than one -1, or no size fits.
    """
    known, unknown = 1, -1
    for index, size in enumerate(sizes):
        if size == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = index
        elif size < 0:
            raise RuntimeError(f"invalid shape dimension {size}")
        else:
            known *= size
    result = list(sizes)
    if unknown >= 0:
        if known == 0:
            if numel:
                raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified dimension size -1 can be any "
                "value and is ambiguous"
            )
        if numel % known == 0:
            result[unknown] = numel // known
            return tuple(result)
    elif known == numel:
        return tuple(result)
    raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")


def view_strides(source: Layout, shape: Shape) -> Shape | None:
    """Return the strides that view ``source`` as ``shape`` without moving data, or None where there are none."""
    if source.numel == 0:
        return source.strides if source.shape == shape else contiguous_strides(shape)
    if source.is_contiguous and source.strides == contiguous_strides(source.shape):
        return contiguous_strides(shape)
    # Walk from the last dimension, matching runs of the old shape that are contiguous among themselves.
    strides = [0] * len(shape)
    target = len(shape) - 1
    run_size, run_stride = 1, source.strides[-1]
    for index in range(source.ndim - 1, -1, -1):
        run_size *= source.shape[index]
        if index == 0 or (source.shape[index - 1] != 1 and source.strides[index - 1] != run_size * run_stride):
            covered = 1
            while target >= 0 and (covered < run_size or shape[target] == 1):
                strides[target] = covered * run_stride
                covered *= shape[target]
                target -= 1
            if covered != run_size:
                return None
            if index > 0:
                run_size, run_stride = 1, source.strides[index - 1]
    return tuple(strides) if target == -1 else None


def wrap_dimension(dim: int, ndim: int) -> int:
    """Return a dimension as a non-negative index; a 0-d tensor accepts -1 and 0.

    Raises:
        IndexError: outside of ``[-ndim, ndim - 1]``.
    """
    limit = ndim or 1
    if not -limit <= dim < limit:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return dim + limit if dim < 0 else dim


def existing_dimension(dim: int, ndim: int) -> int:
    """Return a dimension as a non-negative index, where a 0-d tensor has none.

    Raises:
        IndexError: outside of ``[-ndim, ndim - 1]``.
    """
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dimension(dim, ndim)


def storage_extent(view: Layout) -> int:
    """Return one past the last storage element a view touches; 0 for an empty view."""
    if view.numel == 0:
        return 0
    return view.offset + 1 + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))


def repeats(view: Layout) -> bool:
    """Return whether a view may show one storage element several times; false only where it surely does not."""
    ordered = sorted((stride, size) for stride, size in zip(view.strides, view.shape, strict=True) if size > 1)
    reach = 0
    for stride, size in ordered:
        if stride <= reach:
            return view.numel > 0
        reach += stride * (size - 1)
    return False


def real_layout(source: Layout) -> Layout:
    """Return where the floats of complex elements lie: a last dimension of real and imaginary part."""
    return layout((*source.shape, 2), (*(2 * stride for stride in source.strides), 1), 2 * source.offset)


def part_layout(source: Layout, part: int) -> Layout:
    """Return where the real (0) or imaginary (1) parts of complex elements lie."""
    return layout(source.shape, tuple(2 * stride for stride in source.strides), 2 * source.offset + part)


def complex_layout(source: Layout) -> Layout:
    """Return the layout of complex elements whose parts are the last dimension.

    Raises:
        RuntimeError: the parts do not follow each other, or other strides or the offset are odd.
    """
    if source.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if source.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if source.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    # The stride of a dimension of one element leads nowhere.
    if any(stride % 2 and size != 1 for size, stride in zip(source.shape[:-1], source.strides[:-1], strict=True)):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if source.offset % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return layout(source.shape[:-1], tuple(stride // 2 for stride in source.strides[:-1]), source.offset // 2)
