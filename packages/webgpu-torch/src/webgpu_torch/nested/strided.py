"""The class of nested tensors in the layout ``torch.strided``: components of any sizes, one after another.

Loaded when the first one is made: from then on calls look for it among their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NoReturn, Self

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .._holding import Answer
from .base import AnyNested

Sizes = tuple[tuple[int, ...], ...]


class StridedNestedTensor(AnyNested):
    """A batch of tensors that may differ in any sizes; their elements follow one another in one block."""

    _components: Sizes

    @classmethod
    def of(cls, parts: Sequence[Tensor], like: Tensor | None = None) -> Self:
        """Return the one of components, which gradients flow back to."""
        sizes = tuple(tuple(each.shape) for each in parts)
        flat = [each.reshape(-1) for each in parts]
        block = torch.cat(flat) if flat else torch.empty(0) if like is None else like.new_empty(0)
        return cls._made(block, _components=sizes)

    def _with(self, values: Tensor, sizes: Sizes | None = None) -> Self:
        return type(self)._made(values, _components=self._components if sizes is None else sizes)

    def _no_sizes(self, asked: str) -> NoReturn:
        raise RuntimeError(
            f"Internal error: NestedTensorImpl doesn't support {asked}. A nested tensor of the strided layout has one for each "
            "component: ask size(dim) or unbind()"
        )

    @property
    def shape(self) -> NoReturn:  # type: ignore[override]
        """Refuse: components have shapes.

        Raises:
            RuntimeError: always.
        """
        self._no_sizes("sizes")

    def dim(self) -> int:
        """Return the number of dimensions: the components', and one for the batch."""
        return len(self._components[0]) + 1 if self._components else 1

    ndim = property(dim)  # type: ignore[assignment]

    def size(self, dim: int | None = None) -> int:
        """Return one size, which components have in common.

        Raises:
            RuntimeError: they do not, or no dimension was named.
        """
        if dim is None:
            self._no_sizes("sizes")
        place = self._dimension(dim)
        found = {len(self._components)} if place == 0 else {each[place - 1] for each in self._components}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {place} is irregular and does not have a size.")
        return found.pop()

    def stride(self, dim: int | None = None) -> NoReturn:
        """Refuse: components have strides.

        Raises:
            RuntimeError: always.
        """
        self._no_sizes("strides")

    def numel(self) -> int:
        """Return the number of elements."""
        return self._held.numel()

    def is_contiguous(self, memory_format: Answer = torch.contiguous_format) -> bool:
        """Return True: components follow one another."""
        return True

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the components: views.

        Raises:
            RuntimeError: another dimension than 0.
        """
        if self._dimension(dim) != 0:
            raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
        counts = [math.prod(each) for each in self._components]
        parts = self._held.split(counts) if counts else ()
        return tuple(part.view(sizes) for part, sizes in zip(parts, self._components, strict=True))

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Return a dense tensor in which components are filled up: to the greatest of each size, or to a size.

        Raises:
            RuntimeError: no components, or a size that is too small.
        """
        if not self._components:
            return self._held.new_full((0,), padding)
        greatest = [max(each) for each in zip(*self._components, strict=True)]
        wanted = greatest if output_size is None else list(output_size)[1:]
        if len(wanted) != len(greatest) or any(size < least for size, least in zip(wanted, greatest, strict=True)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        return torch.stack([_filled(each, wanted, padding) for each in self.unbind()])

    def _nested_tensor_size(self) -> Tensor:
        return torch.tensor(self._components, dtype=torch.int64)

    def _nested_tensor_strides(self) -> Tensor:
        strides = [[math.prod(each[place + 1 :]) for place in range(len(each))] for each in self._components]
        return torch.tensor(strides, dtype=torch.int64)

    def _nested_tensor_storage_offsets(self) -> Tensor:
        counts = torch.tensor([0, *(math.prod(each) for each in self._components)], dtype=torch.int64)
        return counts.cumsum(0)[:-1]

    @staticmethod
    def _answer(func: Callable[..., Answer], path: str, args: Answer, kwargs: Answer) -> Answer:
        # They are made of this class.
        from .strided_answers import answer

        return answer(func, path, args, kwargs)

    # Python

    def __len__(self) -> int:
        return len(self._components)

    def __repr__(self, *, tensor_contents: object = None) -> str:
        inside = ",\n".join(
            "  " + repr(each).replace("\n", "\n  ") for each in self._with(self._held.detach()).unbind()
        )
        told = (
            f", grad_fn={self.grad_fn!r}"
            if self.grad_fn is not None
            else ", requires_grad=True"
            if self.requires_grad
            else ""
        )
        return f"nested_tensor([\n{inside}\n]{told})"

    def __reduce_ex__(self, protocol: object) -> tuple[Answer, ...]:
        return _restored, (self._held if self.is_leaf else self._held.detach(), self._components)


def _filled(part: Tensor, wanted: Sequence[int], padding: float) -> Tensor:
    """Return a component, filled up to a size."""
    missing = [size - found for size, found in zip(wanted, part.shape, strict=True)]
    ends = [each for size in reversed(missing) for each in (0, size)]
    return torch.constant_pad_nd(part, ends, padding)


def _restored(values: Tensor, sizes: Sizes) -> StridedNestedTensor:
    return StridedNestedTensor._made(values, _components=sizes)
