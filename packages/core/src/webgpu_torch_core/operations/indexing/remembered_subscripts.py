"""Views by subscripts of numbers, slices, None and dots: the layout that one takes of another is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...bounded import Bounded
from ...dispatch import overrides
from ...dispatch.direct import PLAIN
from ...ir.dtypes import int32, int64
from ...tensors.tensor import Tensor
from ..common import needs_gradient
from ..movement.views import make_view

if TYPE_CHECKING:
    from ...ir.layouts import Layout

_LIMIT = 4096
_PARTS = frozenset((int, type(None), type(Ellipsis)))
_ENDS = frozenset((int, type(None)))
#: by the layout of a tensor and what stands in a subscript
_layouts: Bounded[tuple[object, ...], Layout] = Bounded(_LIMIT)


def view_by_subscript(input: Tensor, subscript: object, view: Callable[[Tensor, object], Tensor]) -> Tensor:
    """Return what a subscript gives, of whatever shape; ``view`` is called for it, but for a view that was taken before.

    A view of which no gradient is followed is the same as one taken step by step.
    """
    key = None if overrides._active or input.__class__ not in PLAIN or needs_gradient(input) else _key(input, subscript)
    if key is None:
        return view(input, subscript)
    found = _layouts.get(key)
    if found is not None:
        return make_view(input, found, "", _followed)
    made = view(input, subscript)
    if made._storage is input._storage:
        _layouts[key] = made._layout
    return made


def _key(input: Tensor, subscript: object) -> tuple[object, ...] | None:
    """Return by what a view is found; None where a part of the subscript is something else, such as a truth or a tensor."""
    key: list[object] = [input._layout]
    for each in subscript if subscript.__class__ is tuple else (subscript,):  # type: ignore[attr-defined]
        if each.__class__ is slice:
            start, stop, step = each.start, each.stop, each.step
            if start.__class__ not in _ENDS or stop.__class__ not in _ENDS or step.__class__ not in _ENDS:
                return None
            key.append((start, stop, step))
        elif each.__class__ in _PARTS:
            key.append(each)
        else:
            return None
    return tuple(key)


def _followed(grad: Tensor) -> Tensor:
    raise AssertionError("no gradient is followed")


def lists_positions(subscript: object) -> bool:
    """Return whether a subscript is a tensor of positions: what it reads depends on nothing that must be read before."""
    return isinstance(subscript, Tensor) and subscript.ndim > 0 and subscript.dtype in (int64, int32)
