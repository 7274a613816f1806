"""``__torch_dispatch__``: operations that go to the classes of their tensors, or to a mode, after ``__torch_function__``.

Which operations PyTorch has, and what each call means in its terms, is known a few floors above: :attr:`Dispatching.answer`.
While no object of such a class was made and no mode is open, nobody looks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

from ..record.context import context, handed_on
from ..tensors.tensor import Tensor

#: an argument or a result of an operation: a tensor, a number, or sequences of them
Value: TypeAlias = Any
_Item = TypeVar("_Item")


class Answering(Protocol):
    """A mode, or a class of tensors: what may answer operations."""

    def __torch_dispatch__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Return the answer to an operation."""
        ...


#: what :attr:`Dispatching.answer` returns for calls that are no operation, such as the reading of a size
UNANSWERED = object()


class Dispatching:
    """What all threads share.

    Attributes:
        active: whether an object of a class that answers was made, or a mode is open.
        answer: given a public function, what it is without overriding, and its arguments, returns the answer of a mode or of a
            class; :data:`UNANSWERED` where nobody is to be asked.
    """

    active = False
    lasting = False
    modes = 0
    answer: Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] = staticmethod(
        lambda *_: UNANSWERED
    )


_lock = threading.Lock()


class _State(threading.local):
    def __init__(self) -> None:
        self.modes: list[Answering] = []
        self.off = False
        #: whether gradients were recorded where the innermost handler was called
        self.recorded: list[bool] = []


_state = _State()
handed_on.append(_state)


class DisableTorchDispatch:
    """A region in which operations are computed whatever the classes of their tensors, and no mode is asked."""

    def __init__(self) -> None:
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before.append((_state.off, _state.modes))
        _state.off, _state.modes = True, []

    def __exit__(self, *_: object) -> None:
        _state.off, _state.modes = self._before.pop()


class Disabled:
    """What a class has as a handler that leaves calls to what is called, in a region where no class is asked."""

    def __init__(self, name: str, region: Callable[[], AbstractContextManager[None]]) -> None:
        self.__name__ = name
        self._region = region

    def __call__(self, func: Callable[..., object], types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Call the function, past all classes."""
        with self._region():
            return func(*args, **(kwargs or {}))


disabled_dispatch = Disabled("_disabled_torch_dispatch_impl", DisableTorchDispatch)
Tensor.__torch_dispatch__ = disabled_dispatch  # type: ignore[attr-defined]


class EnableReentrantDispatch:
    """A region inside of a handler in which gradients are recorded as they were where the operation was called."""

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(context.enabled)
        if _state.recorded:
            context.enabled = _state.recorded[-1]

    def __exit__(self, *_: object) -> None:
        context.enabled = self._before.pop()


def answers(kind: type) -> bool:
    """Return whether a class answers operations itself."""
    handler = getattr(kind, "__torch_dispatch__", disabled_dispatch)
    if handler is disabled_dispatch or handler is None:
        return False
    # PyTorch's own tensors, to be converted here, have one too.
    return getattr(handler, "__name__", "") != disabled_dispatch.__name__


def notice_answering(kind: type) -> bool:
    """Look for objects of classes that answer from now on, if a class of which there is an object does; return whether."""
    if not answers(kind):
        return False
    with _lock:
        Dispatching.active = Dispatching.lasting = True
    return True


def push_mode(mode: Answering) -> None:
    """Open a mode in this thread."""
    _state.modes.append(mode)
    with _lock:
        Dispatching.modes += 1
        Dispatching.active = True


def pop_mode() -> Answering:
    """Close this thread's innermost mode and return it."""
    mode = _state.modes.pop()
    with _lock:
        Dispatching.modes -= 1
        Dispatching.active = Dispatching.lasting or Dispatching.modes > 0
    return mode


def dispatch_modes() -> list[Answering]:
    """Return the modes that are open in this thread, the innermost last."""
    return list(_state.modes)


def insert(value: _Item, found: list[_Item]) -> None:
    """Add what is the first of its class: subclasses before their superclasses, else from left to right."""
    kind = type(value)
    if all(type(other) is not kind for other in found):
        place = next((index for index, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(place, value)


def holders(values: Iterable[object]) -> list[Tensor]:
    """Return one tensor, of any shape, of each class that answers, in the order of :func:`insert`."""
    found: list[Tensor] = []
    if not _state.off and Dispatching.lasting:
        for value in values:
            kind = type(value)
            if kind is not Tensor and isinstance(value, Tensor) and answers(kind):
                insert(value, found)
    return found


def ask(operation: Value, found: Sequence[Tensor], args: Value, kwargs: Value) -> Value:
    """Return the first answer of the innermost mode and of tensors whose classes answer, and record no gradient of it.

    Raises:
        TypeError: nobody answered.
    """
    saved = context.enabled
    _state.recorded.append(saved)
    # What holds plain tensors only may record their gradients itself; other tensors get theirs afterwards.
    context.enabled = saved and not found
    try:
        return first_answer("__torch_dispatch__", "torch.ops.{}".format, _state.modes, operation, found, args, kwargs)
    finally:
        context.enabled = saved
        _state.recorded.pop()


def first_answer(
    handler: str, named: Callable[[Value], str], modes: list[Any], call: Value, found: Sequence[Any], args: Value, kwargs: Value
) -> Value:  # fmt: skip
    """Return the first answer of a thread's innermost mode, closed meanwhile, and of objects whose classes have a handler.

    Raises:
        TypeError: nobody answered; ``named`` returns what was called.
    """
    types = tuple(type(each) for each in found)
    if modes:
        mode = modes.pop()
        try:
            result = getattr(mode, handler)(call, types, args, kwargs)
        finally:
            modes.append(mode)
        if result is not NotImplemented:
            return result
    for each in found:
        result = getattr(each, handler)(call, types, args, kwargs)
        if result is not NotImplemented:
            return result
    asked = "".join(f"\n  - mode object {each!r}" for each in modes[-1:])
    asked += "".join(f"\n  - tensor subclass {each!r}" for each in types)
    raise TypeError(
        f"Multiple dispatch failed for '{named(call)}'; all {handler} handlers returned NotImplemented:\n{asked}"
    )
