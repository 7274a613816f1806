"""What nested tensors of both layouts have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from webgpu_torch_core import Tensor

from .._holding import Answer, HoldingTensor


class AnyNested(HoldingTensor):
    """A batch of tensors whose elements are another tensor's."""

    is_nested = True

    def values(self) -> Tensor:
        """Return the components, one after another."""
        return self._held

    _values = property(values)

    def _dimension(self, dim: int) -> int:
        """Return a dimension counted from the front."""
        count = self.dim()
        if not -count <= dim < count:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})"
            )
        return dim % count

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the components: views.

        Raises:
            RuntimeError: another dimension than 0.
        """
        raise NotImplementedError

    def _as_cotangent(self, gradient: Answer) -> Tensor:
        return gradient._held

    # Python

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.unbind())

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, specification: str) -> str:
        return format(repr(self), specification)

    def __deepcopy__(self, memo: dict[int, Answer]) -> Self:
        # What is equal stays equal: components stand at the same places.
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        memo[id(self)] = made = self._with(self._held.detach().clone())
        return made.requires_grad_(self.requires_grad)


def method_of(kind: type[AnyNested], name: str) -> Callable[..., Answer] | None:
    """Return a method that a class of nested tensors has itself, or that all of what holds another tensor has."""
    found = next((vars(each)[name] for each in (kind, AnyNested, HoldingTensor) if name in vars(each)), None)
    return found if callable(found) else None
