"""Reading and writing at positions: gather, scatter, index_select, basic and advanced indexing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...dispatch.direct import PLAIN
from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...ir.dtypes import bool_, int32, int64, uint8
from ...ir.host_bytes import real_number
from ...ir.layouts import (
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    layout,
    number_of_elements,
    view_strides,
)
from ...notices import warn
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import attach_zeros, check_apart, dtype_title, needs_gradient, no_view, type_title
from ..creation.factories import tensor
from ..in_place.writing import (
    assign,
    check_leaf,
    check_writable,
    warn_of_repeats,
    without_repeats,
)
from ..movement.splitting import unbind
from ..movement.views import make_view, permute, select_dimension, slice_view
from ..outputs import into
from .gathering import take_positions, write_slices
from .index_checks import Report, bound, check_positions, in_range, means_tuple, positions_inside, require_inside
from .nonzero import (
    chooses,
    chosen_elements,
    coordinates,
    filled_where,
    is_mask,
    mask_alone,
    mask_positions,
)
from .remembered_subscripts import lists_positions, view_by_subscript
from .scattering import put_repeated

if TYPE_CHECKING:
    pass

#: what PyTorch says of masks of bytes
_BYTES = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."

# Subscripts


class _Indices(list["Tensor | None"]):
    """Per dimension its index tensor or None; ``found`` lists the dimensions whose positions are right by construction."""

    def __init__(self, given: Iterable[Tensor | None] = (), found: Iterable[int] = ()) -> None:
        super().__init__(given)
        self.found = set(found)


class _Entries(list[Any]):
    """One entry per dimension; those ``behind`` the ellipsis are ``more`` places further than in the subscript."""

    behind: int
    more: int

    def place(self, position: int) -> int:
        """Return which of the subscript's parts an entry was."""
        return position - self.more if position >= self.behind else position


def _expand_subscript(input: Tensor, subscript: Any) -> _Entries:
    """Return one entry per consumed dimension: int, slice, None, or index tensor; the ellipsis filled in."""
    items = list(subscript) if isinstance(subscript, tuple) or means_tuple(subscript) else [subscript]
    entries: list[Any] = []
    for each in items:
        if isinstance(each, list | tuple | range) or (type(each).__module__ == "numpy" and getattr(each, "ndim", 0)):
            each = tensor(list(each) if isinstance(each, range) else each, device=input.device)
            if each.dtype is not uint8 and each.dtype.category == (1 if each._layout.numel else 2):
                each = each.to(int64)
        entries.append(each)
    consumed = sum(
        each.ndim if is_mask(each) else 1
        for each in entries
        if each is not None and each is not Ellipsis and not isinstance(each, bool)
    )
    if consumed > input.ndim:
        if not isinstance(subscript, tuple) and hasattr(subscript, "__index__") and not isinstance(subscript, Tensor):
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
                "0-dim tensor to a number"
            )
        if not isinstance(subscript, tuple) and isinstance(subscript, slice):
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        raise IndexError(f"too many indices for tensor of dimension {input.ndim}")
    dots = [position for position, each in enumerate(entries) if each is Ellipsis] or [len(entries)]
    fill = [slice(None)] * (input.ndim - consumed)
    rest = entries[dots[0] + 1 :]
    if fill and len(dots) > 1:
        # Every ellipsis goes past as many dimensions as are left to the first: a slice behind a second one finds none.
        rest, behind = entries[dots[0] + 1 : dots[1]], entries[dots[1] :]
        if not all(each is Ellipsis or isinstance(each, slice) for each in behind):
            raise IndexError(f"no dimension is left behind a second ellipsis of a tensor of dimension {input.ndim}")
    found = _Entries([*entries[: dots[0]], *fill, *(each for each in rest if each is not Ellipsis)])
    found.behind, found.more = dots[0] + len(fill), len(fill) - 1
    return found


def _apply_basic(input: Tensor, entries: _Entries, tracked: bool | None = None) -> tuple[Tensor, _Indices]:
    """Apply ints, slices and None as views; return the view and, per dimension left, its index tensor or None.

    ``tracked``: whether what will be written has a gradient, None if nothing will be: leaves are refused before masks, and
    numbers outside before both.
    """
    view = input
    indices = _Indices()
    masks: list[tuple[int, Tensor]] = []
    dim = 0
    for part, each in enumerate(entries):
        if each is None:
            view = view.unsqueeze(dim)
            indices.append(None)
            dim += 1
        elif isinstance(each, bool) or (is_mask(each) and not each.ndim):
            view = view.unsqueeze(dim)
            indices.found.add(dim)
            indices.append(view.new_tensor([0] if each else [], dtype=int64))
            dim += 1
        elif isinstance(each, slice):
            view = _slice(view, dim, each)
            indices.append(None)
            dim += 1
        elif isinstance(each, Tensor):
            if is_mask(each):
                if each.dtype is uint8:
                    warn(_BYTES)
                masks.append((dim, each))
                indices.extend([None] * each.ndim)
                dim += each.ndim
            elif each.dtype not in (int32, int64) if each.ndim else each.dtype.category != 1:
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            elif each.ndim == 0:
                # PyTorch reads a 0-d integer tensor as a number: a view, even beside index tensors.
                view = view.select(dim, in_range(int(each.item()), view._layout.shape[dim], entries.place(part)))
            else:
                indices.append(each if each.device == input.device else each.to(input.device))
                dim += 1
        elif hasattr(each, "__index__"):
            view = view.select(dim, in_range(each.__index__(), view._layout.shape[dim], entries.place(part)))
        elif isinstance(each, str):
            raise TypeError(f"new(): invalid data type '{type(each).__name__}'")
        else:
            raise IndexError(
                f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {type(each).__name__})"
            )
    if masks and tracked is not None:
        check_leaf(view, tracked)
    for place, mask in masks:
        shown = slice(place, place + mask.ndim)
        indices[shown] = unbind(coordinates(mask_positions(view, mask, place), mask._layout.shape), 0)
        indices.found.update(range(view.ndim)[shown])
    return view, indices


def _slice(view: Tensor, dim: int, each: slice) -> Tensor:
    first, last, step = (None if end is None else bound(end) for end in (each.start, each.stop, each.step))
    step = 1 if step is None else step
    if step <= 0:
        raise ValueError("step must be greater than zero")
    size = view._layout.shape[dim]
    places = range(size)[first:last:step]
    if len(places) == size and step == 1:
        return view
    return slice_view(view, dim, places.start, len(places), step)


def _looked_at(view: Tensor, indices: _Indices, shape: tuple[int, ...]) -> tuple[list[Tensor], Report | None]:
    """Return the index tensors, of a common shape; positions outside are refused, now or with the next results that are read.

    A single one is what it was: the kernel that uses it looks at it, with what is returned beside. Of several each becomes
    positions from the front, which what reads them looks at.
    """
    where = [position for position, each in enumerate(indices) if each is not None]
    chosen: list[Tensor] = []
    report = None
    for position in where:
        index: Any = indices[position]
        size = view._layout.shape[position]
        # Of nothing PyTorch reads nothing and at no positions.
        if position not in indices.found and view.numel() and 0 not in shape:
            # It counts dimensions of what is left to index, where these come first.
            if len(where) > 1:
                index = positions_inside("index", index, size, partial(refusal, size), True)
            else:
                report = check_positions("index", index, size, 0, IndexError, True, by_reader=True)
        chosen.append(index)
    return chosen, report


def refusal(size: int, found: int) -> Exception:
    """Return the error of a position that is outside of a dimension."""
    return IndexError(f"index {found} is out of bounds for dimension 0 with size {size}")


def _joint(view: Tensor, indices: _Indices) -> tuple[Tensor, tuple[int, ...], int]:
    """Return the view with indexed dimensions adjacent, the shape that its index tensors have together, and where they start."""
    where = [position for position, each in enumerate(indices) if each is not None]
    first = where[0]
    if where != list(range(first, first + len(where))):
        # Indexed dimensions that are apart move to the front, as in NumPy.
        order = where + [position for position in range(view.ndim) if position not in where]
        view = permute(view, tuple(order))
        first = 0
    shapes = [indices[position]._layout.shape for position in where]  # type: ignore[union-attr]
    try:
        together = broadcast_shapes(*shapes)
    except RuntimeError:
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {', '.join(str(list(each)) for each in shapes)}"
        ) from None
    if 0 not in together and 0 in view._layout.shape[first : first + len(where)]:
        raise IndexError("index is out of bounds for dimension with size 0")
    return view, together, first


def _combined(view: Tensor, chosen: list[Tensor], first: int) -> tuple[Tensor, Tensor]:
    """Return the view with its indexed dimensions flattened into one, and one index into that, of positions from the front."""
    if len(chosen) == 1:
        return view, chosen[0]
    sizes = view._layout.shape[first : first + len(chosen)]
    position: Any = None
    for index, size in zip(chosen, sizes, strict=True):
        position = index.to(int64) if position is None else position * size + index
    shape = view._layout.shape
    return view.reshape((*shape[:first], number_of_elements(sizes), *shape[first + len(chosen) :])), position


def _getitem(self: Tensor, subscript: Any) -> Tensor:
    shape = self._layout.shape
    if subscript.__class__ is int and self.__class__ in PLAIN and shape and -shape[0] <= subscript < shape[0]:
        return select_dimension(self, 0, subscript)
    return view_by_subscript(self, subscript, _getitem_by_tensors)


def _getitem_by_tensors(self: Tensor, subscript: object) -> Tensor:
    several = isinstance(subscript, tuple) and subscript.__class__ is tuple and any(map(lists_positions, subscript))
    if several or lists_positions(subscript):
        return _getitem_by_positions(self, subscript)
    return _getitem_by_any(self, subscript)


def _getitem_by_any(self: Tensor, subscript: object) -> Tensor:
    entries = _expand_subscript(self, subscript)
    if (mask := mask_alone(entries)) is not None and 0 < (dims := mask.ndim) <= self.ndim:
        if mask.dtype is uint8:
            warn(_BYTES)
        # Positions need not be taken apart into dimensions, nor known where of everything no gradient asks for them.
        if dims == self.ndim and chooses(self, mask):
            return chosen_elements(self, mask)
        positions = mask_positions(self, mask, 0)
        shape = self._layout.shape
        flat = self.reshape((number_of_elements(shape[:dims]), *shape[dims:]))
        return take_positions(flat, 0, positions, "IndexBackward0", _chosen_strides(self, [positions] * dims, 0))
    view, indices = _apply_basic(self, entries)
    if all(each is None for each in indices):
        if view is not self:
            return view
        # One slice of everything is recorded as a slice; everything said with an ellipsis or a tuple is the tensor again.
        title = "SliceBackward0" if isinstance(subscript, slice) else "AliasBackward0"
        return make_view(self, self._layout, title, lambda grad: grad)
    plain = view
    view, shape, first = _joint(view, indices)
    chosen, report = _looked_at(plain, indices, shape)
    chosen = [each.expand(shape) for each in chosen]
    flat, position = _combined(view, chosen, first)
    return take_positions(flat, first, position, "IndexBackward0", _chosen_strides(view, chosen, first), report)


_getitem_by_positions = remembered(_getitem_by_any)


def _chosen_strides(view: Tensor, chosen: list[Tensor], first: int) -> tuple[int, ...]:
    """Return the strides of what index tensors choose: dimensions in the order that the view and the indices have."""
    source, index, last = view._layout, chosen[0]._layout.shape, first + len(chosen)
    shape = (*source.shape[:first], *index, *source.shape[last:])
    own = (*source.strides[:first], *(0 for _ in index), *source.strides[last:])
    # A dimension of one element has the stride that a view with that dimension has, and takes part in the order.
    spread = (*(1,) * first, *index, *(1,) * (source.ndim - last))
    places = (layout(spread, view_strides(each._layout, spread) or spread) for each in chosen)
    return dense_strides(shape, own, *(broadcast_strides(each, shape) for each in places))


def _setitem(self: Tensor, subscript: Any, value: Any) -> None:
    if is_mask(subscript) and not subscript.ndim:
        subscript = bool(subscript)
    if subscript is False:
        return
    # True alone writes into the whole, and converts as writing into a slice does.
    entries = _expand_subscript(self, None if subscript is True else subscript)
    if (written := filled_where(self, entries, value)) is not None:
        check_writable(self, needs_gradient(self))
        assign(self, retitled(written, "IndexPutBackward0"), fresh=True)
        return
    view, indices = _apply_basic(self, entries, isinstance(value, Tensor) and needs_gradient(self, value))
    if not isinstance(value, Tensor):
        if not isinstance(value, bool | int | float | complex) and getattr(value, "shape", None) != ():
            raise TypeError(f"can't assign a {type(value).__name__} to a torch.{dtype_title(self.dtype)}Tensor")
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ValueError("Overflow when unpacking long long")
        value = self.new_full((), value) if isinstance(value, bool | int | float | complex) else self.new_tensor(value)
    value = value.to(self.device) if value.device != self.device and value.ndim == 0 else value
    if all(each is None for each in indices):
        while value.ndim > view.ndim and value.shape[0] == 1:
            value = value.squeeze(0)
        view.copy_(value if value._layout.shape == view._layout.shape else _spread(value, view._layout.shape))
        return
    # A single mask fills with any one number; elements that are picked are not converted.
    fills = _fills(entries, value)
    if fills and value.dtype.is_complex and not self.dtype.is_complex:
        value = self.new_full((), real_number(value.item(), self.dtype))
    _put(view, indices, value.to(self.dtype) if fills else value, False, fills)


def _spread(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a value that is assigned expanded to a shape; what PyTorch's error shows begins with the first size that is not 1."""
    try:
        return value.expand(shape)
    except RuntimeError:
        return _trimmed(value).expand(shape)


def _trimmed(value: Tensor) -> Tensor:
    while value.ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


def _fills(entries: list[Any], value: Tensor) -> bool:
    """Return whether one value is written where one mask holds.

    Raises:
        RuntimeError: the mask is of bytes.
    """
    # A 0-d tensor of integers counts as a number, a truth value as an index that is no mask.
    kinds = [None if isinstance(each, bool) else each.dtype for each in entries if _is_index(each)]
    if value.numel() != 1 or len(kinds) != 1 or kinds[0] not in (bool_, uint8):
        return False
    if kinds[0] is uint8:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    return True


def _is_index(entry: object) -> bool:
    return isinstance(entry, bool) or (isinstance(entry, Tensor) and (entry.ndim > 0 or entry.dtype.category == 0))


def _put(view: Tensor, indices: _Indices, value: Tensor, accumulate: bool, fills: bool) -> None:
    plain, shown = view, without_repeats(view)
    check_writable(shown, needs_gradient(view, value))
    if not fills:
        check_apart(view, value, *indices)
    if shown is not view:
        warn_of_repeats("index_put_")
    view, together, first = _joint(view, indices)
    shape, last = view._layout.shape, first + sum(each is not None for each in indices)
    target = (*shape[:first], *together, *shape[last:])
    while value.ndim > len(target) and value.shape[0] == 1:
        value = value.squeeze(0)
    try:
        value = value.expand(target)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(_trimmed(value).shape)} cannot be broadcast to indexing result of shape "
            f"{list(target)}"
        ) from None
    if shown is not plain and fills:
        warn_of_repeats("masked_fill_")
    if value.dtype is not view.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {type_title(view)} for the destination "
            f"and {type_title(value)} for the source."
        )
    if shown is not plain:
        put_repeated(plain, shown, indices, value, accumulate)
        return
    if value.numel() == 0:
        # Where nothing is written, positions may be outside, as where nothing is read.
        if needs_gradient(plain, value):
            made = attach_zeros(plain.clone(), "IndexPutBackward0", (value,))
            assign(plain, retitled(made, "IndexPutBackward0"), fresh=True)
        return
    write = _write_rows if needs_gradient(view, value) else _written
    found = write(plain, tuple(indices), tuple(sorted(indices.found)), value, accumulate)
    assign(view, retitled(found, "IndexPutBackward0"), fresh=True)


def _write_rows(
    plain: Tensor, given: tuple[Tensor | None, ...], found: tuple[int, ...], value: Tensor, accumulate: bool
) -> Tensor:
    """Return a tensor with indexed dimensions adjacent, and a value of the shape that is indexed written there, or added.

    ``found``: which indices are where a mask holds.
    """
    indices = _Indices(given, found)
    view, together, first = _joint(plain, indices)
    shape, last = view._layout.shape, first + sum(each is not None for each in indices)
    chosen, report = _looked_at(plain, indices, together)
    flat, position = _combined(view, [each.expand(together) for each in chosen], first)
    rows = value.reshape((*shape[:first], position.numel(), *shape[last:]))
    kind = "sum" if accumulate else None
    return no_view(write_slices(flat, first, position.reshape(-1), rows, kind, "index_put", report).reshape(shape))


_written = remembered(_write_rows)


@operation("scatter", namespace="method")
def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write (or add) values at the positions index tensors list.

    Raises:
        TypeError: the tensors are not given as a tuple or list.
    """
    if not isinstance(indices, tuple | list):
        raise TypeError(f"index_put_(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    check_leaf(self)
    entries = _expand_subscript(self, tuple(indices))
    fills = not accumulate and _fills(entries, values)
    if fills:
        values = values.to(self.dtype)
    view, found = _apply_basic(self, entries)
    if all(each is None for each in found):
        # Every index was a single position: a plain view is written.
        _ = view.add_(values) if accumulate else view.copy_(values)
        return self
    _put(view, found, values, accumulate, fills)
    return self


@operation("scatter")
def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy with values written (or added) at the positions index tensors list."""
    return index_put_(input.clone(), indices, values, accumulate)


def _delitem(self: Tensor, item: object) -> None:
    """Refuse: elements cannot be taken out of a tensor."""
    raise TypeError("Tensor does not support deleting items")


Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]
Tensor.__delitem__ = _delitem  # type: ignore[attr-defined]


@operation("composite", title="TakeBackward0")
@remembered
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements at flat positions.

    Raises:
        IndexError: a known position is not there.
    """
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {type_title(index)}")
    check_apart(out, input, index)
    size = input.numel()
    report = require_inside(
        "take",
        index,
        size,
        lambda found: IndexError(f"out of range: tried to access index {found} on a tensor of {size} elements."),
        True,
        by_reader=size > 0,
    )
    return into(take_positions(input.reshape(-1), 0, index, "TakeBackward0", report=report), out, True)
