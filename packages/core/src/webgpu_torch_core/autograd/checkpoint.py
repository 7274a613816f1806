"""Recomputing instead of keeping: the forward call of a part of the network runs again in the backward pass.

Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

from ..notices import warn
from ..operations.random.generator import default_generator
from ..record.devices import canonical_device
from ..record.grad_mode import enable_grad, no_grad, recording
from ..record.node import running
from ..tensors.tensor import Tensor
from .engine import backward
from .function import Function
from .recomputing import CheckpointError as CheckpointError
from .recomputing import Frame, casting_as_now, defaults

#: how to choose between the two ways, where nobody has chosen
_WHICH = (
    "use_reentrant=False is recommended, but if you need to preserve the current default behavior, you can pass "
    "use_reentrant=True. Refer to docs for more details on the differences between the two variants."
)


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that do nothing: for the forward call and for its repetition."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn, determinism_check: str = "default", debug: bool = False,
    early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Return ``function(*args)`` without keeping what its backward needs: that is computed again when it is needed.

    Args:
        function: takes tensors and anything else; draws the same random numbers when it runs again.
        use_reentrant: True runs a backward pass inside the backward pass, which needs an argument that requires a gradient
            and does not allow :func:`torch.autograd.grad`; False has no such limits.
        context_fn: returns two context managers, for the forward call and for its repetition.
        determinism_check: ``"default"`` compares the shapes and types of what is saved for backward, ``"none"`` does not.
        preserve_rng_state: (in ``kwargs``) False lets the repetition draw other random numbers.
        debug: tell where tensors were saved if the repetition saves others.
        early_stop: end the repetition when all that was saved is there again; :func:`set_checkpoint_early_stop` goes before it.

    Raises:
        ValueError: arguments that do not go together.
        CheckpointError: the repetition saves something else, or a tensor is asked for twice (in the backward pass).
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
            f"checkpoint without use_reentrant will raise an exception. {_WHICH}"
        )
        use_reentrant = True
    preserve = bool(kwargs.pop("preserve_rng_state", True))
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        check_backward_validity(args)
        return CheckpointFunction.apply(function, preserve, *args)
    stop = early_stop if defaults.early_stop is None else defaults.early_stop
    told = debug if defaults.debug is None else defaults.debug
    return _checkpointed(function, args, kwargs, preserve, context_fn(), determinism_check == "default", stop, told)


def check_backward_validity(inputs: Any) -> None:
    """Warn where no tensor among the arguments requires a gradient."""
    if recording.enabled and not any(getattr(each, "requires_grad", False) for each in inputs):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


class RandomState:
    """Where the random streams stood: the CPU's, and those of the arguments' devices."""

    def __init__(self, tensors: list[Any]) -> None:
        places = {canonical_device("cpu"), *(each.device for each in tensors if each.device.type != "meta")}
        self.states = [(each, each.position()) for each in map(default_generator, places)]

    @contextlib.contextmanager
    def again(self) -> Generator[None]:
        """Let the streams start there once more, and go on where they were afterwards."""
        now = [(each, each.position()) for each, _ in self.states]
        for each, position in self.states:
            each.move_to(position)
        try:
            yield
        finally:
            for each, position in now:
                each.move_to(position)


def tensors_in(value: Any, found: list[Any] | None = None) -> list[Any]:
    """Return the tensors inside containers, in order."""
    found = [] if found is None else found
    if isinstance(value, Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for each in value.values():
            tensors_in(each, found)
    elif isinstance(value, tuple | list):
        for each in value:
            tensors_in(each, found)
    return found


def _checkpointed(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], preserve: bool,
    contexts: Sequence[contextlib.AbstractContextManager[object]], check: bool, early_stop: bool, debug: bool,
) -> object:  # fmt: skip
    """Return a function's result; what it saves for backward is computed again when it is needed."""
    first, again = contexts
    if not recording.enabled:
        with first:
            return function(*args, **kwargs)
    random = RandomState(tensors_in([args, kwargs])) if preserve else None
    casting = casting_as_now()
    names = tuple(kwargs)

    def repeat(*given: object) -> None:
        named = dict(zip(names, given[len(given) - len(names) :], strict=True))
        with random.again() if random is not None else contextlib.nullcontext(), casting(), again:
            function(*given[: len(given) - len(names)], **named)

    frame = Frame(repeat, (*args, *kwargs.values()), check, early_stop, debug)
    with frame.recording(), first:
        return function(*args, **kwargs)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments whose tensors are leaves."""
    return tuple(
        each.detach().requires_grad_(each.requires_grad) if isinstance(each, Tensor) else each for each in inputs
    )


class CheckpointFunction(Function):
    """The reentrant form: a custom function whose backward runs a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function without recording."""
        ctx.run_function = run_function
        ctx.random = RandomState(tensors_in(args)) if preserve_rng_state else None
        ctx.others = [None if isinstance(each, Tensor) else each for each in args]
        ctx.is_tensor = [isinstance(each, Tensor) for each in args]
        ctx.save_for_backward(*(each for each in args if isinstance(each, Tensor)))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Run the function again, recording, and differentiate it."""
        if running.task is not None and running.task.wanted is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter "
                "to .backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without "
                "passing the `inputs` argument."
            )
        saved = iter(ctx.saved_tensors)
        args = [next(saved) if flag else other for flag, other in zip(ctx.is_tensor, ctx.others, strict=True)]
        inputs = detach_variable(tuple(args))
        with ctx.random.again() if ctx.random is not None else contextlib.nullcontext(), enable_grad():
            outputs = ctx.run_function(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (each, gradient)
            for each, gradient in zip(outputs, gradients, strict=False)
            if isinstance(each, Tensor) and each.requires_grad
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([each for each, _ in pairs], [gradient for _, gradient in pairs])
        return (None, None, *(each.grad if isinstance(each, Tensor) else None for each in inputs))


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Return the last of a chain of functions applied in turn, all segments but the last of them checkpointed.

    Args:
        functions: a ``Sequential`` or a list of functions of one argument.
        segments: number of pieces to cut the chain into.
        input: argument of the first.
        preserve_rng_state: (in ``kwargs``) as for :func:`checkpoint`.

    Raises:
        ValueError: unknown keyword arguments.
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In version "
            f"2.9 we will raise an exception if use_reentrant is not passed. {_WHICH}"
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def piece(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for each in chain[start:end]:
                value = each(value)
            return value

        return run

    size = len(chain) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(piece(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return piece(end, len(chain))(input)
