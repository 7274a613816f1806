"""Nodes of the gradient graph: what produced a tensor, and where its gradient goes."""

from __future__ import annotations

import itertools
import threading
from _thread import RLock
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .changes import Hooks
from .context import handed_on

_sequence = itertools.count()

Gradients = Sequence[Any]

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class Anomaly:
    """Whether nodes remember where they were recorded, and whether their results are searched for NaN."""

    enabled = False
    check_nan = True


anomaly = Anomaly()
#: where this library's own frames lie, which nobody looks for
_PACKAGE = __file__.removesuffix("record/node.py").removesuffix("autograd\\node.py")


class _Running(threading.local):
    """What this thread's engine visits: ``nodes``, the innermost last, and the innermost pass.

    ``unpacked`` is where what nodes take out of what they saved is noted, if somebody wants to know.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.task: Any = None
        self.unpacked: list[Any] | None = None


running = _Running()
handed_on.append(running)


class _Order:
    """Whether any gradient has had a hook: hooks alone see when leaves get what has arrived at them."""

    seen = False


order = _Order()


#: nodes that PyTorch does not generate: their names tell where they are from
_OWN = ("AccumulateGrad", "CopySlices", "NotImplemented")


class Node:
    """One recorded operation: ``backward(*output_gradients)`` returns a gradient (or None) per edge.

    ``edges`` are (node, output number) pairs, None where the input needs no gradient. Nodes are numbered in recording
    order; the engine visits them from the newest to the oldest. As in PyTorch every kind of node is a class of its own,
    named like it: ``MulBackward0``.
    """

    #: whether users wrote it, as a function of their own
    custom = False

    __slots__ = (
        "__weakref__", "_metadata", "backward", "edges", "hooks", "node_pre_hooks", "output_count", "pre_hooks", "retained",
        "sequence",
    )  # fmt: skip

    # Subclasses have constructors of their own; only the title decides the class.
    def __new__(cls, title: Any = None, *_: Any) -> Any:
        """Make a node of the class with a title's name."""
        return object.__new__(_kinds.get(title) or _kind(title) if cls is Node else cls)

    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        self,
        title: str,
        edges: tuple[tuple[Node, int] | None, ...],
        backward: Callable[..., Any] | None,
        output_count: int = 1,
    ) -> None:
        self.edges = edges
        self.backward: Callable[..., Any] | None = backward
        self.output_count = output_count
        self.sequence = next(_sequence)
        self._metadata: dict[Any, Any] | None = None
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.node_pre_hooks: dict[int, Callable[..., Any]] | None = None
        self.pre_hooks: dict[int, dict[int, Callable[..., Any]]] | None = None
        self.retained: dict[int, Any] | None = None
        if anomaly.enabled:
            self._remember_place()

    def _remember_place(self) -> None:
        # Slow to import, and seldom needed.
        import traceback

        frames = traceback.extract_stack()
        while frames and frames[-1].filename.startswith((_PACKAGE, "<operation ")):
            frames.pop()
        self.metadata["traceback_"] = traceback.format_list(frames)
        if running.nodes:
            self.metadata["parent_"] = running.nodes[-1]

    @property
    def title(self) -> str:
        """The node's name as PyTorch spells it."""
        return type(self).__name__

    @title.setter
    def title(self, title: str) -> None:
        self.__class__ = _kinds.get(title) or _kind(title)  # pyright: ignore[reportAttributeAccessIssue]

    def name(self) -> str:
        """Return the node's name as PyTorch spells it, such as ``AddBackward0``."""
        title = self.title
        return f"torch::autograd::{title}" if title in _OWN else title

    @property
    def metadata(self) -> dict[Any, Any]:
        """Whatever is to be remembered about the node; anomaly mode keeps the forward call's traceback here."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

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
            raise RuntimeError(FREED)
        if gradients[0] is None and all(gradient is None for gradient in gradients):
            return (None,) * len(self.edges)
        result = self.backward(*gradients)
        return result if isinstance(result, tuple | list) else (result,)

    def release(self) -> None:
        """Drop what the node saved; one that saved nothing may run again."""
        backward = self.backward
        if backward.__class__ is _FUNCTION:
            kept = _holds_tensors(backward)
        else:
            kept = getattr(backward, "keeps_tensors", True)
        if kept:
            self.backward = None

    def spent(self) -> Node | None:
        """Return a node in this one's place that keeps nothing, if going backward from it can only raise; else None."""
        seen: set[Node] = set()
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if node.backward is None:
                return Node(self.title, (), None, self.output_count)
            if node not in seen:
                seen.add(node)
                waiting += [edge[0] for edge in node.edges if edge is not None]
        return None

    def _sequence_nr(self) -> int:
        return self.sequence

    def _set_sequence_nr(self, number: int) -> None:
        self.sequence = number

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after the node ran; a returned tuple replaces ``grad_inputs``."""
        if self.hooks is None:
            self.hooks = Hooks()
        return RemovableHandle(self.hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before the node runs; a returned tuple replaces ``grad_outputs``."""
        if self.node_pre_hooks is None:
            self.node_pre_hooks = Hooks()
        return RemovableHandle(self.node_pre_hooks, hook)

    def __call__(self, *gradients: object) -> object:
        """Return what the node makes of gradients of its outputs: one gradient, or a tuple of several.

        Raises:
            TypeError: there are not as many as outputs.
        """
        if len(gradients) != self.output_count:
            raise TypeError(
                f"{self.title} expected {self.output_count} arguments, got {len(gradients)} arguments instead"
            )
        running.nodes.append(self)
        try:
            parts = tuple(self.run(gradients))
        finally:
            running.nodes.pop()
        return parts[0] if len(parts) == 1 else parts

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # What element-wise operations have kept of their operands, by PyTorch's names.
            for prefix, raw in (("_saved_", False), ("_raw_saved_", True)):
                if name.startswith(prefix):
                    if self.backward is None:
                        raise RuntimeError(FREED)
                    kept = getattr(self.backward, "named", lambda _: None)(name.removeprefix(prefix))
                    if kept is not None:
                        return kept if raw else kept.unpack(self) if name.endswith("_result") else kept.unpack()
            raise AttributeError(f"'{self.title}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return f"<{self.title} object at {id(self):#x}>"


def _no_gradients(*_: Any) -> tuple[Any, ...]:
    return ()


_PLAIN = frozenset((int, str, bool, float, type(None)))
_SEQUENCES = frozenset((tuple, list))
_FUNCTION = type(_no_gradients)


def _holds_tensors(value: Any) -> bool:
    """Return whether a function has kept a tensor."""
    for cell in value.__closure__ or ():
        content = cell.cell_contents
        kind = content.__class__
        if kind in _PLAIN:
            continue
        for each in content if kind in _SEQUENCES else content.values() if kind is dict else (content,):
            if each.__class__ is _FUNCTION:
                if _holds_tensors(each):
                    return True
            elif hasattr(each, "_storage") or hasattr(each, "unpack"):
                return True
    return False


_kinds: dict[str, type[Node]] = {}


def _kind(title: str) -> type[Node]:
    kind = _kinds[title] = type(title, (Node,), {"__slots__": (), "__doc__": Node.__doc__})
    return kind


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds to its ``.grad``."""

    __slots__ = ("lock", "variable")

    def __init__(self, variable: Any) -> None:  # pyright: ignore[reportInconsistentConstructor]
        # Passes of several threads may arrive at once.
        self.lock = RLock()
        # No bound method is stored: it would tie the node, and the gradients with it, into a reference cycle.
        super().__init__("AccumulateGrad", (), _no_gradients)
        self.variable = variable
        # Leaves come last whatever the recording order, where nobody sees it.
        self.sequence = -1

    def run(self, gradients: Gradients) -> Gradients:
        """Add the gradient that arrived to the leaf's, if it still requires one."""
        if gradients[0] is not None and self.variable.requires_grad:
            with self.lock:
                self.variable._accumulate_grad(gradients[0], running.task.takes(gradients[0]))
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
        order.seen = True

    def remove(self) -> None:
        """Take the hook out."""
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def lead_past_hooks(writer: Node, written: tuple[Node, int], base: Node) -> None:
    """Have a node that writes into a view send gradients to what the view's base was, past the hooks on the view, as in PyTorch."""
    other = _past_hooks(written, base)
    if other is not written:
        writer.edges = tuple(other if edge == written else edge for edge in writer.edges)


def _past_hooks(edge: tuple[Node, int], end: Node) -> tuple[Node, int]:
    """Return an edge that leads to a node through views as another edge does, past the hooks on them: that edge if there are none."""
    node, number = edge
    if node is end or len(node.edges) != 1 or node.edges[0] is None:
        return edge
    beyond = _past_hooks(node.edges[0], end)
    if beyond is node.edges[0] and not (node.hooks or node.node_pre_hooks or node.pre_hooks or node.retained):
        return edge
    bare = Node(node.title, (beyond,), node.backward, node.output_count)
    bare.sequence = node.sequence
    return bare, number
