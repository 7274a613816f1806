"""Results that another thread sets, as ``torch.futures``."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")
Next = TypeVar("Next")

__all__ = ["Future", "collect_all", "wait_all"]


class Future(Generic[Value]):
    """A value that is set once, waited for and passed on to functions.

    Args:
        devices: accepted; values of devices are waited for when they are read.
    """

    def __init__(self, *, devices: Sequence[object] | None = None) -> None:
        self._inner: concurrent.futures.Future[Value] = concurrent.futures.Future()

    def done(self) -> bool:
        """Return whether there is a value or an exception."""
        return self._inner.done()

    def wait(self) -> Value:
        """Return the value, once there is one.

        Raises:
            Exception: the one that was set instead.
        """
        return self._inner.result()

    def value(self) -> Value:
        """Return the value.

        Raises:
            RuntimeError: there is none yet.
        """
        if not self.done():
            raise RuntimeError("Future is not completed: call wait() instead of value()")
        return self._inner.result()

    def set_result(self, result: Value) -> None:
        """Set the value and call what waits for it.

        Raises:
            RuntimeError: there is one already.
        """
        if self.done():
            raise RuntimeError("Future can only be marked completed once")
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Have those who wait raise an exception.

        Raises:
            AssertionError: it is no exception.
            RuntimeError: there is a value already.
        """
        assert isinstance(result, Exception), f"{result} is of type {type(result)}, not an Exception."
        if self.done():
            raise RuntimeError("Future can only be marked completed once")
        self._inner.set_exception(result)

    def then(self, callback: Callable[[Future[Value]], Next]) -> Future[Next]:
        """Return a future of what ``callback(self)`` returns once this one is done."""
        following: Future[Next] = Future()

        def go_on(_: object) -> None:
            try:
                following.set_result(callback(self))
            except Exception as error:
                following.set_exception(error)

        self._inner.add_done_callback(go_on)
        return following

    def add_done_callback(self, callback: Callable[[Future[Value]], object]) -> None:
        """Call ``callback(self)`` once this one is done."""
        self._inner.add_done_callback(lambda _: callback(self) and None)


def collect_all(futures: Sequence[Future[Value]]) -> Future[list[Future[Value]]]:
    """Return a future of the list of futures, done when all of them are."""
    result: Future[list[Future[Value]]] = Future()
    left = len(futures)
    if not left:
        result.set_result([])

    def count(_: Future[Value]) -> None:
        nonlocal left
        left -= 1
        if not left:
            result.set_result(list(futures))

    for each in futures:
        each.add_done_callback(count)
    return result


def wait_all(futures: Sequence[Future[Value]]) -> list[Value]:
    """Return all values, waiting for each in turn.

    Raises:
        Exception: the first that a future has instead of a value.
    """
    return [each.wait() for each in collect_all(futures).wait()]
