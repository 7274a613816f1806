"""Stacking, splitting, flipping and combining dimensions: compositions of views, cat and gather."""

from __future__ import annotations

import itertools
import operator
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.argument_types import is_whole
from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...ir.dtypes import int32, int64
from ...ir.layouts import broadcast_shapes as common_shape
from ...ir.layouts import wrap_dimension
from ...notices import warn_once
from ...replay.recipes import remembered
from ...tensors.memory_formats import contiguous_format
from ...tensors.storage import DataStorage
from ...tensors.tensor import Size, Tensor
from ..common import no_view, require_layout, type_title
from ..creation.factories import as_tensor, from_bytes
from ..creation.ranges import arange
from ..indexing.nonzero import coordinates, nonzero_positions
from ..outputs import into
from .joining import cat, flip, place_inside, several, stack
from .splitting import chunk, split, unbind
from .views import narrow

if TYPE_CHECKING:
    from ...ir.dtypes import dtype


def listed(tensors: tuple[Any, ...]) -> list[Any]:
    """Return the tensors given one by one or as one sequence."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else list(tensors)


def _each(tensors: tuple[Any, ...], change: Any) -> Any:
    if len(tensors) == 1 and not isinstance(tensors[0], tuple | list):
        return change(tensors[0])
    return tuple(change(each) for each in listed(tensors))


@operation("view")
def atleast_1d(*tensors: Any) -> Any:
    """Tensors of at least one dimension: scalars as vectors of one element."""
    return _each(tensors, lambda each: each.reshape(1) if each.ndim == 0 else each)


@operation("view")
def atleast_2d(*tensors: Any) -> Any:
    """Tensors of at least two dimensions: vectors as single rows."""
    return _each(tensors, lambda each: each.reshape(1, -1) if each.ndim < 2 else each)


@operation("view")
def atleast_3d(*tensors: Any) -> Any:
    """Tensors of at least three dimensions: vectors as [1, n, 1], matrices as [m, n, 1]."""

    def change(each: Tensor) -> Tensor:
        if each.ndim < 2:
            return each.reshape(1, -1, 1)
        return each.unsqueeze(-1) if each.ndim == 2 else each

    return _each(tensors, change)


@operation("composite", method=False)
def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the third dimension."""
    raised = [atleast_3d(each) for each in several("dstack", tensors)]
    if not raised:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return cat(raised, 2, out=out)


@operation("composite", method=False)
def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors side by side: vectors are columns."""
    return cat(
        [each.reshape(each.numel(), 1) if each.ndim < 2 else each for each in several("column_stack", tensors)],
        1,
        out=out,
    )


@operation("composite")
def fliplr(input: Tensor) -> Tensor:
    """The second dimension reversed."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


@operation("composite")
def flipud(input: Tensor) -> Tensor:
    """The first dimension reversed."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


@operation("composite", title="Rot90Backward0")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A plane of two dimensions turned ``k`` times by 90 degrees, from the first towards the second.

    Raises:
        RuntimeError: not two different dimensions, or fewer than two in the input.
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    if wrap_dimension(dims[0], input.ndim) == wrap_dimension(dims[1], input.ndim):
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    for each in dims:
        if not -input.ndim <= each < input.ndim:
            raise RuntimeError(
                f"Rotation dim{list(dims).index(each)} out of range, dim{list(dims).index(each)} = {each}"
            )
    first, second = (wrap_dimension(each, input.ndim) for each in dims)
    turns = k % 4
    if turns == 1:
        return no_view(flip(input, (second,)).transpose(first, second))
    if turns == 2:
        return flip(input, (first, second))
    if turns == 3:
        return no_view(flip(input, (first,)).transpose(first, second))
    return input.clone(memory_format=contiguous_format)


@operation("view", title="SliceBackward0")
def tensor_split(input: Tensor, indices_or_sections: Tensor | int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of nearly equal size, or cut at the given positions.

    Raises:
        RuntimeError: a scalar input, or a number of sections that is not positive.
    """
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    axis = wrap_dimension(dim, input.ndim)
    size = input.shape[axis]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.dtype.name != "int64":
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{type_title(indices_or_sections)}"
            )
        if indices_or_sections.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a "
                f"tensor with {indices_or_sections.ndim} dims"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int) or is_whole(indices_or_sections):
        indices_or_sections = operator.index(indices_or_sections)
        if indices_or_sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices_or_sections}")
        least, more = divmod(size, indices_or_sections)
        starts = [number * least + min(number, more) for number in range(indices_or_sections + 1)]
        return tuple(narrow(input, axis, low, high - low) for low, high in itertools.pairwise(starts))
    bounds = [0, *(min(max(each + size if each < 0 else each, 0), size) for each in indices_or_sections), size]
    return tuple(narrow(input, axis, low, max(high - low, 0)) for low, high in itertools.pairwise(bounds))


def _split_dimension(name: str, least: int, dimension: Any, doc: str) -> None:
    def function(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {input.ndim} dimensions!"
            )
        dim = dimension(input)
        if isinstance(indices_or_sections, int) and (
            indices_or_sections <= 0 or input.shape[dim] % indices_or_sections
        ):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} is "
                f"not divisible by the split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, dim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    operation("view")(function)


_split_dimension(
    "hsplit", 1, lambda input: 0 if input.ndim == 1 else 1, "Pieces side by side: of the second dimension."
)
_split_dimension("vsplit", 2, lambda _: 0, "Pieces below each other: of the first dimension.")
_split_dimension("dsplit", 3, lambda _: 2, "Pieces behind each other: of the third dimension.")


def _of_their_own(pieces: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return views as tensors whose gradients know nothing of what they are views of, though its memory is theirs: nor do they
    count each other's writes.
    """
    for each in pieces:
        each._base = None
        each._storage = DataStorage(each._storage)
        retitled(each, "UnsafeSplitBackward0")
    return pieces


@operation("composite")
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`split`, for callers that promise not to use pieces and whole alike once one of them was written in place."""
    return _of_their_own(split(input, split_size, dim))


@operation("composite")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`chunk`, for callers that promise not to use pieces and whole alike once one of them was written in place."""
    return _of_their_own(chunk(input, chunks, dim))


@operation("composite")
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`split_with_sizes` whose pieces may be written in place."""
    return tuple(each.clone() for each in split(input, list(split_sizes), dim))


@operation("view")
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of the given sizes."""
    return split(input, list(split_sizes), dim)


@operation("composite", method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of vectors: ``indexing`` is ``ij`` (rows first, the default) or ``xy`` (columns first).

    Raises:
        RuntimeError: no tensors, tensors of more than one dimension, or of several types or devices.
    """
    vectors = listed(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for each in vectors:
        if each.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {each}")
        if each.dtype is not vectors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
        if each.device != vectors[0].device:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same device")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing is None:
        warn_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    swapped = indexing == "xy" and len(vectors) >= 2
    if swapped:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape = tuple(each.numel() for each in vectors)
    grids = [
        each.reshape(tuple(-1 if place == number else 1 for place in range(len(vectors)))).expand(shape)
        for number, each in enumerate(vectors)
    ]
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@operation("composite", method=False)
@remembered
def cartesian_prod(*tensors: Any) -> Tensor:
    """Every combination of the vectors' elements, a row each."""
    vectors = listed(tensors)
    for each in vectors:
        if each.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(each.shape)}")
    if len(vectors) == 1:
        return vectors[0]
    return stack([each.reshape(-1) for each in meshgrid(*vectors, indexing="ij")], 1)


@operation("composite", method=False, title="StackBackward0")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Combinations of ``r`` elements of a vector, a row each."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    if r == 1:
        return input.reshape(-1, 1).clone()
    grids = meshgrid(*[arange(input.numel(), device=input.device)] * r, indexing="ij")
    kept: Any = None
    for low, high in itertools.pairwise(grids):
        here = low <= high if with_replacement else low < high
        kept = here if kept is None else kept & here
    positions = nonzero_positions(kept)
    rows = coordinates(positions, kept._layout.shape).T
    return input.index_select(0, rows.reshape(-1)).reshape(rows._layout.shape)


@operation("composite", method=False, title="BlockDiagBackward0")
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of a larger one; scalars and vectors count as [1, 1] and [1, n]."""
    blocks = listed(tensors)
    for number, each in enumerate(blocks):
        if each.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {number} has {each.ndim} dimensions"
            )
    blocks = [atleast_2d(each) for each in blocks]
    if not blocks:
        return as_tensor([[]])
    width = sum(each.shape[1] for each in blocks)
    rows, before = [], 0
    for each in blocks:
        rows.append(place_inside(each, (0, before), (each.shape[0], width)))
        before += each.shape[1]
    return cat(rows, 0)


@operation("view", method=False)
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that shapes broadcast to.

    Raises:
        RuntimeError: they do not, or one is no shape.
    """
    for each in shapes:
        if each is not None and not isinstance(each, int | tuple | list):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {each}")
    sizes = [(each,) if isinstance(each, int) else tuple(each) for each in shapes]
    for each in sizes:
        if any(size < 0 for size in each):
            raise RuntimeError(f"Trying to create tensor with negative dimension ({min(each)}): ({min(each)})")
    return Size(common_shape(*sizes))


def _check_joinable(input: Tensor, given: Tensor, axis: int) -> None:
    """Raise unless what is to stand before or behind an input along a dimension has its other sizes."""
    if given.ndim != input.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for place, (size, other) in enumerate(zip(input._layout.shape, given._layout.shape, strict=True)):
        if size != other and place != axis:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the differencing dimension; "
                f"input.size({place}) = {size}, but got tensor.size({place}) = {other}"
            )


@operation("composite")
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None,
    *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Differences of neighbours along a dimension, ``n`` times.

    Raises:
        RuntimeError: a scalar, a negative ``n``, or sizes that do not fit.
    """
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0 and prepend is None and append is None:
        return into(input.clone(), out, True)
    axis, result = wrap_dimension(dim, input.ndim), input
    for each in (prepend, append):
        if each is not None:
            _check_joinable(input, each, axis)
    if n == 0:
        return into(input.clone(), out, True)
    parts = [each for each in (prepend, input, append) if each is not None]
    result = cat(parts, axis) if len(parts) > 1 else result
    for _ in range(min(n, result.shape[axis])):
        size = result.shape[axis]
        high, low = narrow(result, axis, 1, size - 1), narrow(result, axis, 0, size - 1)
        result = high.logical_xor(low) if result.dtype.category == 0 else high - low
    return into(result, out, read=(input,))


@operation("composite")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Flat positions as coordinates of a shape, a tensor per dimension.

    Raises:
        TypeError: the positions are not integers, or the shape is no int or sequence of ints.
    """
    if indices.dtype.category != 1:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype!r}")
    if not isinstance(shape, int | Sequence):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    for each in sizes:
        if not isinstance(each, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(each)}")
    if any(each < 0 for each in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    found: list[Tensor] = []
    rest = indices.to(int64)
    for size in reversed(sizes):
        found.append(rest % size)
        rest = rest // size
    return unbind(stack(found[::-1], -1), -1) if found else ()


@operation("composite", method=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The rows and columns [2, n] on and below a diagonal."""
    _require_sizes(row, col)
    require_layout(layout, pin_memory, requires_grad)
    ends = (min(max(each + offset + 1, 0), col) for each in range(row))
    return _places([(0, each) for each in ends], col, dtype, device)


@operation("composite", method=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The rows and columns [2, n] on and above a diagonal."""
    _require_sizes(row, col)
    require_layout(layout, pin_memory, requires_grad)
    starts = (min(max(each + offset, 0), col) for each in range(row))
    return _places([(each, col) for each in starts], col, dtype, device)


def _require_sizes(row: int, col: int) -> None:
    for name, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{name} must be non-negative, got{size}")


def _places(ranges: list[tuple[int, int]], col: int, dtype: dtype | None, device: Any) -> Tensor:
    """Return the rows and the columns of a range of columns in each row."""
    kind = int64 if dtype is None else dtype
    if kind not in (int64, int32):
        raise NotImplementedError(f'"tril_indices" not implemented for {dtype!r}')
    code, size = "q" if kind is int64 else "i", kind.itemsize
    # Copies of bytes: no number is looked at alone.
    numbers = array(code, range(col)).tobytes()
    rows = [array(code, (row,)).tobytes() * (stop - start) for row, (start, stop) in enumerate(ranges)]
    columns = [numbers[start * size : stop * size] for start, stop in ranges]
    data = bytearray().join((*rows, *columns))
    return from_bytes(data, (2, len(data) // (2 * size)), kind, device)
