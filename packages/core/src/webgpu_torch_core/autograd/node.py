"""Nodes of the gradient graph: what produced a tensor, and where its gradient goes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

_sequence = itertools.count()

Gradients = Sequence[Any]


class Node:
    """One recorded operation: ``backward(*output_gradients)`` returns a gradient (or None) per edge.

    ``edges`` are (node, output number) pairs, None where the input needs no gradient. Nodes are numbered in recording
    order; the engine visits them from the newest to the oldest.
    """

    __slots__ = (
        "__weakref__", "backward", "edges", "hooks", "metadata", "output_count", "pre_hooks", "retained", "sequence",
        "title",
    )  # fmt: skip

    def __init__(
        self,
        title: str,
        edges: tuple[tuple[Node, int] | None, ...],
        backward: Callable[..., Any],
        output_count: int = 1,
    ) -> None:
        self.title = title
        self.edges = edges
        self.backward: Callable[..., Any] | None = backward
        self.output_count = output_count
        self.sequence = next(_sequence)
        self.metadata: dict[int, Any] = {}
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.pre_hooks: dict[int, list[Callable[..., Any]]] | None = None
        self.retained: dict[int, Any] | None = None

    def name(self) -> str:
        """Return the node's name as PyTorch spells it, such as ``AddBackward0``."""
        return self.title

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that receive this node's results."""
        return tuple(edge if edge is not None else (None, 0) for edge in self.edges)

    def run(self, gradients: Gradients) -> Gradients:
        """Return the gradients of the inputs.

        Raises:
            RuntimeError: the node's saved values were freed by an earlier backward.
        """
        if self.backward is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
                "if you need to access saved tensors after calling backward."
            )
        result = self.backward(*gradients)
        return result if isinstance(result, tuple | list) else (result,)

    def release(self) -> None:
        """Drop what the node saved."""
        self.backward = None

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after the node ran; a returned tuple replaces ``grad_inputs``."""
        if self.hooks is None:
            self.hooks = {}
        return RemovableHandle(self.hooks, hook)

    def __repr__(self) -> str:
        return f"<{self.title} object at {id(self):#x}>"


def _no_gradients(*_: Any) -> tuple[Any, ...]:
    return ()


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds to its ``.grad``."""

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        # No bound method is stored: it would tie the node, and the gradients with it, into a reference cycle.
        super().__init__("AccumulateGrad", (), _no_gradients)
        self.variable = variable
        # Leaves come last whatever the recording order.
        self.sequence = -1

    def run(self, gradients: Gradients) -> Gradients:
        """Add the gradient that arrived to the leaf's."""
        if gradients[0] is not None:
            self.variable._accumulate_grad(gradients[0])
        return ()

    def release(self) -> None:
        """Keep everything: leaves accumulate again in the next backward."""


class RemovableHandle:
    """Returned by the functions that register hooks; ``remove()`` takes the hook out again."""

    _next = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self.hooks = hooks
        self.id = next(RemovableHandle._next)
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook out."""
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
