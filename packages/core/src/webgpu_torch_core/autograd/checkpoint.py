"""Recomputing instead of keeping: the forward call of a part of the network runs again in the backward pass.

Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

from ..notices import warn
from ..operations.random.generator import default_generator
from ..record.devices import canonical_device
from ..record.grad_mode import enable_grad, no_grad, recording
from ..record.node import AccumulateGrad, Node, running
from ..record.node import _sequence as sequence
from ..tensors.tensor import Tensor
from .engine import Pass, backward
from .function import Function


class CheckpointError(RuntimeError):
    """The recomputed part is not what ran forward."""


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
        determinism_check: ``"default"`` compares the shapes and types of the results, ``"none"`` does not.
        preserve_rng_state: (in ``kwargs``) False lets the repetition draw other random numbers.
        debug, early_stop: accepted; nothing is computed that is not needed.

    Raises:
        ValueError: arguments that do not go together.
        CheckpointError: the repetition returned something else (in the backward pass).
    """
    del debug, early_stop
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True.",
        )
        use_reentrant = True
    preserve = bool(kwargs.pop("preserve_rng_state", True))
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        check_backward_validity(args)
        return CheckpointFunction.apply(function, preserve, *args)
    segment = Segment(function, args, kwargs, preserve, determinism_check == "default", *context_fn())
    return segment.forward()


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


class Segment:
    """One call that is computed twice.

    The first time a graph is recorded only to see what it leads to, and dropped. One node stands for it, with an edge to
    everything outside that the call used: arguments, and also what the function reached by itself, such as parameters.
    """

    def __init__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], preserve: bool, check: bool, first: Any,
        again: Any,
    ) -> None:  # fmt: skip
        self.function, self.args, self.kwargs = function, args, kwargs
        self.first, self.again, self.check = first, again, check
        self.random = RandomState(tensors_in([args, kwargs])) if preserve else None
        self.places: list[int] = []
        self.templates: list[Any] = []
        self.wanted: dict[Any, int] = {}

    def forward(self) -> Any:
        """Return the function's result."""
        if not recording.enabled:
            with self.first:
                return self.function(*self.args, **self.kwargs)
        start = next(sequence)
        with self.first:
            result = self.function(*self.args, **self.kwargs)
        outputs = tensors_in(result)
        made = [each for each in outputs if each._grad_fn is not None and each.grad_fn.sequence > start]
        self.places = [number for number, each in enumerate(outputs) if any(each is other for other in made)]
        self.templates = [(each.shape, each.dtype, each.device) for each in made]
        if not made:
            return result
        for node, number in _outside([each._gradient_edge() for each in made], start):
            self.wanted.setdefault((node, number), len(self.wanted))
        node = Node(made[0].grad_fn.name(), tuple(self.wanted), self.backward, len(made))
        for number, each in enumerate(made):
            # A view would keep what it looks at, and with it the graph.
            each._base = None
            each._set_gradient(node, number)
        return result

    def backward(self, *gradients: Any) -> list[Any]:
        """Compute the segment again and send gradients through it."""
        create_graph = recording.enabled
        with self.random.again() if self.random is not None else contextlib.nullcontext(), self.again, enable_grad():
            start = next(sequence)
            outputs = tensors_in(self.function(*self.args, **self.kwargs))
        made = [outputs[number] for number in self.places if number < len(outputs)]
        self._compare(made)
        roots = [
            (each._gradient_edge(), gradient)
            for each, gradient in zip(made, gradients, strict=False)
            if gradient is not None and each.requires_grad
        ]
        inner = Pass(roots, self.wanted, create_graph, create_graph)
        inner.floor = start
        found = inner.run()
        return [found.get(number) for number in range(len(self.wanted))]

    def _compare(self, made: list[Any]) -> None:
        if not self.check:
            return
        templates = [(each.shape, each.dtype, each.device) for each in made]
        if templates != self.templates:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
                f"forward pass.\nsaved metadata: {self.templates}\nrecomputed metadata: {templates}"
            )


def _outside(edges: list[tuple[Node, int]], start: int) -> list[tuple[Node, int]]:
    """Return the edges that lead out of the part of the graph recorded since a number was drawn."""
    found: list[tuple[Node, int]] = []
    inside = set()
    stack = list(edges)
    while stack:
        node, number = stack.pop()
        if isinstance(node, AccumulateGrad) or node.sequence < start:
            found.append((node, number))
        elif node not in inside:
            inside.add(node)
            stack.extend(edge for edge in node.edges if edge is not None)
    return found


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
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default behavior, you can pass "
            "use_reentrant=True.",
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
