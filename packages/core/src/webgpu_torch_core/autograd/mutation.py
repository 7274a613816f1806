"""Writing into what is saved for backward: ``torch.autograd.graph.allow_mutation_on_saved_tensors``."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ..tensors.tensor import Tensor
from .graph import saved_tensors_hooks

if TYPE_CHECKING:
    from types import TracebackType


class Kept:
    """A tensor's value when it was saved: what is written into the tensor later makes another value."""

    __slots__ = ("__weakref__", "context", "tensor", "value", "version")

    def __init__(self, tensor: Tensor, context: AllowMutationOnSavedContext) -> None:
        self.tensor = tensor
        self.value = tensor._storage.value
        self.version = tensor._storage.version
        self.context = context

    def changed(self) -> bool:
        """Return whether the tensor was written into since."""
        return self.tensor._storage.version != self.version

    def identity(self) -> tuple[int, int]:
        """Return what the same value of the same tensor has in common."""
        return self.tensor._storage.number, self.version

    def restored(self) -> Tensor:
        """Return a tensor of the shape and the value that were saved.

        Raises:
            AssertionError: the block in which it was saved is over.
        """
        if self.context.closed:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        tensor = self.tensor
        if not self.changed():
            return tensor
        return Tensor._from_value(self.value, tensor._layout, tensor.dtype, tensor.device)


class AllowMutationOnSavedContext:
    """What a block of :class:`allow_mutation_on_saved_tensors` has saved.

    Attributes:
        closed: whether the block is over.
    """

    def __init__(self) -> None:
        self.closed = False
        self._kept: weakref.WeakSet[Kept] = weakref.WeakSet()

    def keep(self, tensor: Tensor) -> Kept:
        """Keep a tensor's value."""
        kept = Kept(tensor, self)
        self._kept.add(kept)
        return kept

    @property
    def cloned(self) -> dict[tuple[int, int], Kept]:
        """The values that are kept beside those which the tensors have now, by tensor and number of writes."""
        return {each.identity(): each for each in list(self._kept) if each.changed()}

    @property
    def tid_to_weakhandle(self) -> dict[tuple[int, int], Kept]:
        """All values that are kept, by tensor and number of writes."""
        return {each.identity(): each for each in list(self._kept)}

    def clear(self) -> None:
        """Forget what was saved."""
        self._kept.clear()


_open: list[AllowMutationOnSavedContext] = []


class allow_mutation_on_saved_tensors:
    """A block in which tensors that backward needs may be written into: backward, inside of it, sees what they were.

    Nothing is copied when a tensor is saved, nor when it is written into: the value before the write is kept beside the new one.

    Raises:
        RuntimeError: one block inside of another.
    """

    def __enter__(self) -> AllowMutationOnSavedContext:
        if _open:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._context = AllowMutationOnSavedContext()
        self._hooks = saved_tensors_hooks(self._context.keep, Kept.restored)
        self._hooks.__enter__()
        _open.append(self._context)
        return self._context

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _open.pop()
        self._hooks.__exit__(kind, error, traceback)
        self._context.closed = True
        self._context.clear()
