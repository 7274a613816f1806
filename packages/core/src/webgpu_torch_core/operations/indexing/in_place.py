"""The in-place forms of what writes at positions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...ir.layouts import wrap_dimension
from ...tensors.tensor import Tensor
from ..common import check_apart
from ..in_place.writing import check_leaf, make_in_place, refuse_gradient, warn_of_repeats, without_repeats
from .gathering import index_add, index_copy, index_fill, scatter, scatter_add
from .index_checks import positions_inside
from .nonzero import masked_scatter
from .scatter_reductions import scatter_reduce
from .subscripts import refusal

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


def _has_dimension(input: Tensor, dim: int, *_: object) -> None:
    wrap_dimension(dim, input.ndim)


_fill_positions = make_in_place(index_fill, "index_fill_", apart=None)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """In-place version of :func:`index_fill`; what an expanded tensor shows several times along a dimension is filled once."""
    check_leaf(self)
    check_apart(self, index)
    shown = without_repeats(self)
    if shown is not self:
        index_fill(self.to("meta"), dim, index.to("meta"), value)
        warn_of_repeats("index_fill_")
        size = self._layout.shape[axis := wrap_dimension(dim, self.ndim)]
        if shown._layout.shape[axis] != size:
            index = positions_inside("index_fill", index, size, partial(refusal, size), True).clamp_max(0)
    _fill_positions(shown, dim, index, value)
    refuse_gradient(self, shown)
    return self


for _function in (scatter, scatter_add, scatter_reduce, index_add, masked_scatter):
    _made = make_in_place(
        _function, f"{_function.__name__}_", _function, apart=None if _function is masked_scatter else True
    )
    setattr(Tensor, _made.__name__, _made)
Tensor.index_copy_ = make_in_place(index_copy, "index_copy_", _has_dimension, apart=True)  # type: ignore[attr-defined]
Tensor.index_fill_ = index_fill_  # type: ignore[attr-defined]
