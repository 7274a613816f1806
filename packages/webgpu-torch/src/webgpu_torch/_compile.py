"""What keeps functions out of PyTorch's compiler, as ``torch._compile``: here a compiled function records what it calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Marked = TypeVar("Marked", bound=Callable[..., object])


def _disable_dynamo(fn: Marked | None = None, recursive: bool = True) -> Marked | Callable[[Marked], Marked]:
    """Return a function as it is, or a decorator that does."""
    return fn if fn is not None else lambda marked: marked
