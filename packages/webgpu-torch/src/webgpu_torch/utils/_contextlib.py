"""Context managers that are decorators, as ``torch.utils._contextlib``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Self, TypeVar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def context_decorator(
    ctx: AbstractContextManager[object] | Callable[[], AbstractContextManager[object]], func: Decorated
) -> Decorated:
    """Return a function that runs in a context: a manager, or a function that makes a new one for every call.

    Raises:
        ValueError: both a manager and a function that makes one are given.
    """
    if not (callable(ctx) or hasattr(ctx, "__enter__")):
        raise ValueError(f"{ctx} is neither a context manager nor a function that makes one")
    begin: Any = ctx if not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def generated(*args: object, **kwargs: object) -> Generator[object, object, object]:
            generator, given = func(*args, **kwargs), None
            while True:
                with begin():
                    try:
                        made = generator.send(given)
                    except StopIteration as end:
                        return end.value
                given = yield made

        return generated  # type: ignore[return-value]

    @functools.wraps(func)
    def wrapped(*args: object, **kwargs: object) -> object:
        with begin():
            return func(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


class _DecoratorContextManager:
    """A context manager that also decorates: every call of the function runs in a copy of it, see :meth:`clone`."""

    def __call__(self, orig_func: Decorated) -> Decorated:
        """Return the function in this context."""
        return context_decorator(self.clone, orig_func)  # type: ignore[arg-type]

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        raise NotImplementedError

    def clone(self) -> Self:
        """Return a new manager like this one; override it where the constructor takes arguments."""
        return type(self)()


# The constructor returns what it decorates.
# pyright: reportInconsistentConstructor=false
class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context manager without arguments, which decorates a function without being called first."""

    def __new__(cls, orig_func: Callable[..., object] | None = None) -> object:
        """Return the manager, or the function in its context."""
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
