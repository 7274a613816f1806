"""Switches for recording gradients; each works as a context manager and as a decorator."""

# PyTorch's switches take a function, a flag or nothing, so their constructors cannot agree.
# pyright: reportInconsistentConstructor=false
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..notices import warn
from ..record.context import context, ever

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


#: what is said of a method, by its name and what else may have called it, inside of a function that ``torch.func`` transforms
INSIDE_OF_TRANSFORM = (
    "You are attempting to call Tensor.{0}{1} inside of a function being transformed by a functorch transform. This is "
    "unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call {0} outside "
    "of a function being transformed instead."
)
#: what is said further of results that are to stop requiring a gradient
LEAF_ADVICE = " If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
#: the flag of code that yields
_GENERATOR = 0x20


#: the thread's switches, of which two are this module's
recording = context


def is_grad_enabled() -> bool:
    """Return whether recording gradients is switched on; in inference mode nothing is recorded all the same."""
    return recording.enabled or (recording.inference and recording.grad_asked)


def is_inference_mode_enabled() -> bool:
    """Return whether inference mode is on."""
    return recording.inference


def _ask(enabled: bool) -> None:
    """Switch recording on or off, on for as long as inference mode is not."""
    recording.grad_asked = enabled
    recording.enabled = enabled and not recording.inference


class _Switch:
    """Sets the mode on entry and restores it on exit; re-entrant."""

    enabled = True
    inference: bool | None = None

    def __init__(self) -> None:
        self._saved: list[tuple[bool, bool, bool]] = []

    def __enter__(self) -> Any:
        self._saved.append((recording.enabled, recording.inference, recording.grad_asked))
        if self.inference is not None:
            recording.inference = self.inference
            ever.inference = True
        _ask(self.enabled)
        return self

    def __exit__(self, *_: object) -> None:
        recording.enabled, recording.inference, recording.grad_asked = self._saved.pop()

    def __call__(self, function: Decorated) -> Decorated:
        if isinstance(function, type):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions "
                "or methods. To preserve the current behavior of class decoration, you can directly decorate the `__init__` "
                "method and nothing else.",
                FutureWarning,
            )
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _GENERATOR:
            return self._around_generator(function)  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _around_generator(self, function: Decorated) -> Decorated:
        """Return a generator function that is in this mode only while its own code runs."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            advance = functools.partial(next, generator)
            while True:
                try:
                    with self:
                        value = advance()
                except StopIteration as stop:
                    return stop.value
                try:
                    received = yield value
                except GeneratorExit:
                    with self:
                        generator.close()
                    raise
                except BaseException as error:
                    advance = functools.partial(generator.throw, error)
                else:
                    advance = functools.partial(generator.send, received)

        return wrapped  # type: ignore[return-value]

    def __new__(cls, function: Any = None, *_: Any, mode: Any = None) -> Any:
        # PyTorch lets no_grad be used without parentheses as a decorator.
        instance = super().__new__(cls)
        function = mode if function is None else function
        if callable(function):
            _Switch.__init__(instance)
            return instance(function)
        return instance


class no_grad(_Switch):
    """Stop recording gradients."""

    enabled = False


class enable_grad(_Switch):
    """Record gradients even inside :class:`no_grad`; not inside of :class:`inference_mode`."""

    enabled = True


class inference_mode(_Switch):
    """Stop recording gradients and version counts; tensors made inside cannot be used in a graph later."""

    enabled = False
    inference = True

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.enabled = not mode
        self.inference = mode


class set_grad_enabled(_Switch):
    """Switch recording on or off: takes effect at once, and is undone on exit when used as a context manager."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        if not isinstance(mode, bool | int):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.enabled = bool(mode)
        self._before = recording.enabled, recording.inference, recording.grad_asked
        _ask(self.enabled)

    def __enter__(self) -> Any:
        self._saved.append(self._before)
        _ask(self.enabled)
        return self

    def __call__(self, function: Decorated) -> Decorated:
        recording.enabled, _, recording.grad_asked = self._before
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.enabled})"


class set_multithreading_enabled(_Switch):
    """Say whether backward passes may use several threads; here each runs in the thread that asked for it, either way.

    Takes effect at once, and is undone on exit when used as a context manager.
    """

    #: what was said last
    allowed = True

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode
        self._before_mode = set_multithreading_enabled.allowed
        set_multithreading_enabled.allowed = mode

    def __enter__(self) -> None:
        set_multithreading_enabled.allowed = self.mode

    def __exit__(self, *_: object) -> None:
        set_multithreading_enabled.allowed = self._before_mode


def is_multithreading_enabled() -> bool:
    """Return what :class:`set_multithreading_enabled` was told last."""
    return set_multithreading_enabled.allowed
