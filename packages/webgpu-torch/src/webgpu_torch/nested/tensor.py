"""The class of nested tensors in the layout ``torch.jagged``.

Loaded when the first one is made: from then on calls look for it among their arguments.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Self

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from .._holding import Answer
from .base import AnyNested
from .layouts import jagged


class NestedInt:
    """The size of a ragged dimension: equal where components have the same lengths by the same offsets.

    Args:
        number: which ragged dimension it is.
        factor: what it is multiplied with.
    """

    __slots__ = ("factor", "number")

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number, self.factor = number, factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self) -> int:
        return hash((self.number, self.factor))

    def __mul__(self, other: int) -> NestedInt:
        return NestedInt(self.number, self.factor * other)

    __rmul__ = __mul__

    def __int__(self) -> int:
        raise RuntimeError(f"{self} has no value: it is the size of a ragged dimension")

    def __ge__(self, other: int) -> bool:
        # Whatever it is, it is no size of a dense dimension.
        return other <= 2

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"


_count = itertools.count(1)


class Structure:
    """Where components begin and how long they are; nested tensors share one where they have the same offsets.

    Args:
        offsets: where components begin, and where the last one ends.
        lengths: their lengths, None where each begins where the one before ends.
        number: which ragged size it is; a new one by default.
    """

    def __init__(self, offsets: Tensor, lengths: Tensor | None = None, number: int | None = None) -> None:
        self.offsets, self.lengths = offsets, lengths
        self._number = number

    @classmethod
    def of(cls, offsets: Tensor, lengths: Tensor | None) -> Structure:
        """Return the one of these tensors: the same for the same."""
        key = id(offsets if lengths is None else lengths)
        found = _structures.get(key)
        if found is None:
            found = _structures[key] = cls(offsets, lengths)
        return found

    @property
    def number(self) -> int:
        """Which ragged size it is."""
        if self._number is None:
            self._number = next(_count)
        return self._number

    @cached_property
    def starts(self) -> list[int]:
        """Where components begin."""
        return self.offsets.tolist()[:-1]

    @cached_property
    def sizes(self) -> list[int]:
        """The lengths of components."""
        if self.lengths is not None:
            return self.lengths.tolist()
        return [end - start for start, end in itertools.pairwise(self.offsets.tolist())]

    @property
    def longest(self) -> int:
        """The greatest length."""
        return max(self.sizes, default=0)

    @cached_property
    def counts(self) -> Tensor:
        """The lengths of components as a column."""
        return torch.tensor(self.sizes, dtype=torch.int64, device=self.offsets.device).unsqueeze(1)

    @cached_property
    def rows(self) -> Tensor:
        """The component of each element."""
        places = [row for row, size in enumerate(self.sizes) for _ in range(size)]
        return torch.tensor(places, dtype=torch.int64, device=self.offsets.device)

    @cached_property
    def positions(self) -> Tensor:
        """Where each element is in its component."""
        places = [position for size in self.sizes for position in range(size)]
        return torch.tensor(places, dtype=torch.int64, device=self.offsets.device)

    def inside(self, length: int) -> Tensor:
        """Return which positions of rows of a length are inside of components: [components, length]."""
        return torch.arange(length, device=self.offsets.device) < self.counts

    @cached_property
    def packed(self) -> Structure:
        """The structure of the same lengths without gaps."""
        if self.lengths is None:
            return self
        ends = [0, *itertools.accumulate(self.sizes)]
        return Structure(torch.tensor(ends, device=self.offsets.device), None, self.number)


#: structures by the identity of their tensors, which they keep
_structures: weakref.WeakValueDictionary[int, Structure] = weakref.WeakValueDictionary()


class NestedTensor(AnyNested):
    """A batch of tensors that differ in one size, of which the values follow one another."""

    _structure: Structure
    _ragged: int

    layout = jagged
    overrides_in_pytorch = True

    def _with(self, values: Tensor, ragged: int | None = None) -> Self:
        return type(self)._made(values, _structure=self._structure, _ragged=self._ragged if ragged is None else ragged)

    def _packed(self) -> Self:
        """Return the tensor without gaps between components."""
        at = self._structure
        if at.lengths is None:
            return self
        starts = torch.tensor(at.starts, device=at.offsets.device)
        values = self._held.index_select(self._ragged - 1, starts[at.rows] + at.positions)
        return type(self)._made(values, _structure=at.packed, _ragged=self._ragged)

    @property
    def _sizes(self) -> Size:  # type: ignore[override]
        inside: list[Answer] = list(self._held._layout.shape)
        inside[self._ragged - 1] = NestedInt(self._structure.number)
        return tuple.__new__(Size, (len(self), *inside))

    @property
    def _max_seqlen(self) -> int:
        return self._structure.longest

    @property
    def _min_seqlen(self) -> int:
        return min(self._structure.sizes)

    _maybe_max_seqlen, _maybe_min_seqlen, _ragged_idx = _max_seqlen, _min_seqlen, property(lambda self: self._ragged)

    def offsets(self) -> Tensor:
        """Return where components begin, and where the last one ends."""
        return self._structure.offsets

    def lengths(self) -> Tensor | None:
        """Return the components' lengths, None where each begins where the one before ends."""
        return self._structure.lengths

    def numel(self) -> int:
        """Return the number of elements."""
        return sum(self._structure.sizes) * (self._held.numel() // max(self._held.shape[self._ragged - 1], 1))

    def is_contiguous(self, memory_format: Answer = torch.contiguous_format) -> bool:
        """Return whether the values lie in the order of components, without gaps."""
        return self._structure.lengths is None and self._held.is_contiguous(memory_format)

    def stride(self, dim: int | None = None) -> Answer:
        """Return the strides, of which the first is a multiple of the ragged size."""
        inside = self._held.stride()
        factor = inside[0] if self._ragged == 1 else self._held.stride(self._ragged - 1)
        found = (NestedInt(self._structure.number, factor), *inside)
        return found if dim is None else found[dim]

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Return a dense tensor in which shorter components are filled up: to the longest one, or to a size."""
        return self._padded(padding, None if output_size is None else output_size[self._ragged])

    def _padded(self, padding: float, length: int | None = None) -> Tensor:
        at, dim, values = self._structure, self._ragged - 1, self._held
        length, count, shape = at.longest if length is None else length, len(self), values.shape
        if not values.numel():
            return values.new_full((count, *shape[:dim], length, *shape[dim + 1 :]), padding)
        there = at.inside(length)
        starts = torch.tensor(at.starts, device=values.device).unsqueeze(1)
        places = torch.where(there, starts + torch.arange(length, device=values.device), 0)
        picked = values.index_select(dim, places.flatten()).unflatten(dim, (count, length)).movedim(dim, 0)
        shown = there.view(count, *(1,) * dim, length, *(1,) * (len(shape) - dim - 1))
        return torch.where(shown, picked, torch.tensor(padding, dtype=picked.dtype, device=values.device))

    def _unpadded(self, dense: Tensor) -> Self:
        """Return the elements of a padded tensor at this one's places, as a nested tensor."""
        picked = dense.movedim(self._ragged, 1)[self._structure.rows, self._structure.positions]
        return self._packed()._with(picked.movedim(0, self._ragged - 1))

    def _aligned(self, other: Tensor) -> Tensor:
        """Return a dense tensor as it stands beside this one's values: broadcast over components, or by their places."""
        if other.dim() <= len(self._held.shape) - self._ragged:
            return other
        at = self._structure
        other = other[(None,) * (len(self._held.shape) + 1 - other.dim())]
        rows, length = other.shape[0], other.shape[self._ragged]
        if rows == 1 and length == 1:
            return other.squeeze(0)
        if rows not in (1, len(self)) or length not in (1, at.longest):
            raise RuntimeError(
                f"cannot call binary pointwise function with inputs of shapes {tuple(self.shape)} and {tuple(other.shape)}"
            )
        wide = other.movedim(self._ragged, 1)
        first = at.rows if rows > 1 else torch.zeros_like(at.rows)
        second = at.positions if length > 1 else torch.zeros_like(at.positions)
        return wide[first, second].movedim(0, self._ragged - 1)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the components: views.

        Raises:
            RuntimeError: another dimension than 0.
        """
        if self._dimension(dim) != 0:
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        at = self._structure
        return tuple(
            self._held.narrow(self._ragged - 1, start, size) for start, size in zip(at.starts, at.sizes, strict=True)
        )

    @staticmethod
    def _answer(func: Callable[..., Answer], path: str, args: Answer, kwargs: Answer) -> Answer:
        # They are made of this class.
        from .answers import answer

        return answer(func, path, args, kwargs)

    # Python

    def __len__(self) -> int:
        return self._structure.offsets._layout.shape[0] - 1

    def __repr__(self, *, tensor_contents: object = None) -> str:
        told = ", requires_grad=True" if self.requires_grad and self.is_leaf else ""
        told = f", grad_fn={self.grad_fn!r}" if self.grad_fn is not None else told
        return f"NestedTensor(size={tuple(self.shape)}, offsets={self._structure.offsets!r}{told}, contiguous={self.is_contiguous()})"

    def __reduce_ex__(self, protocol: object) -> tuple[Answer, ...]:
        values = self._held if self.is_leaf else self._held.detach()
        return _restored, (values, self.offsets().clone(), self.lengths(), self._ragged)


def _restored(values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged: int) -> NestedTensor:
    return NestedTensor._made(values, _structure=Structure.of(offsets, lengths), _ragged=ragged)
