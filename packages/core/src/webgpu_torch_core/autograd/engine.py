"""The backward pass: visit nodes from the newest to the oldest, summing what arrives at each."""

from __future__ import annotations

import heapq
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..backend.collection import without_collection
from ..dispatch.registry import OPERATIONS
from ..notices import warn, warn_once
from ..operations.in_place.writing import summed
from ..operations.indexing.parts import place_of_part
from ..record.context import go_on_elsewhere
from ..record.grad_mode import recording
from ..record.node import Node, anomaly, order, running
from ..replay.gradients import passes
from ..tensors.tensor import Tensor
from .anomaly_mode import tell_place
from .hooks import apply_node_hooks, apply_node_pre_hooks, apply_tensor_hooks
from .pieces import Pieces

Edge = tuple[Node, int]

_INSIDE_OF_TRANSFORM = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead or "
    "call backward() outside of functorch transforms."
)
#: returns how many calls of ``torch.vmap`` are running, of a floor above this one
running_batches: list[Callable[[], int]] = [int]
_pass_numbers = itertools.count()
#: so many passes inside of one another share a stack, which holds so many calls only
DEEP = 25
#: runs a node whose gradients may be examples of batches of ``torch.vmap``, which is of a floor above this one
run_with_batches: list[Callable[[Node, list[Any]], Sequence[Any]]] = [lambda node, gradients: node.run(gradients)]


class Pass:
    """One backward pass.

    Args:
        roots: (edge, gradient) pairs to start from.
        wanted: edges whose gradients to return instead of accumulating, numbered; None accumulates into leaves.
        create_graph: record the pass itself, for higher derivatives.
        retain_graph: keep what nodes saved.
        last: nodes that run although nothing is asked for beyond them.
    """

    def __init__(
        self, roots: Sequence[tuple[Edge, Any]], wanted: dict[Any, int] | None, create_graph: bool, retain_graph: bool,
        last: frozenset[Node] = frozenset(),
    ) -> None:  # fmt: skip
        self.number = next(_pass_numbers)
        self.roots = roots
        self.wanted = wanted
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.last = last
        self.arriving: dict[Node, list[Any]] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.results: dict[int, Any] = {}
        self.executing: set[Node] | None = None
        # Storages that somebody else holds, and whether hooks may have let gradients out.
        self.held = {gradient._storage for _, gradient in roots if gradient is not None}
        self.exposed = False
        self.callbacks: list[Callable[[], object]] = []
        # What is to be told of one gradient of the pass, and was.
        self.told: set[object] = set()
        # Nodes recorded before this number are not visited: what arrives at them is returned.
        self.floor = -2
        self.turns = itertools.count()
        # How many passes this one is inside of.
        self.depth = 0
        # How many gradients are on their way to each leaf; None where leaves come last.
        self.missing: Counter[Node] | None = None

    def takes(self, gradient: Any) -> bool:
        """Return whether a leaf may keep a gradient: nobody else will see what is added to it later."""
        storage = gradient._storage
        if self.exposed or storage in self.held or (self.missing is not None and self._waits(storage)):
            return False
        self.held.add(storage)
        return True

    def _waits(self, storage: object) -> bool:
        """Return whether a storage has arrived at a node that has not run yet."""
        found = (each for inbox in self.arriving.values() for each in inbox if each is not None)
        return any(each.__class__ is Pieces or each._storage is storage for each in found)

    def send(self, edge: Edge, gradient: Any) -> None:
        """Add a gradient to what has arrived at an edge; None still makes the node run."""
        node, number = edge
        inbox = self.arriving.get(node)
        if inbox is None:
            inbox = self.arriving[node] = [None] * node.output_count
            if self.missing is None or node.sequence >= 0:
                # Leaves, all alike, take their turns: the same program records the same kernels in the same order.
                heapq.heappush(self.heap, (-node.sequence, next(self.turns), node))
        if self.missing is not None and node in self.missing:
            self.missing[node] -= 1
            if not self.missing[node]:
                # A leaf that has all of its gradients is first.
                heapq.heappush(self.heap, (-sys.maxsize, next(self.turns), node))
        if gradient is None:
            return
        found = inbox[number]
        if found.__class__ is Pieces:
            found.add(gradient)
            return
        place = None if self.exposed else place_of_part(gradient)
        if place is not None:
            inbox[number] = Pieces(gradient, place, found)
        else:
            inbox[number] = gradient if found is None else summed(found, gradient)

    def run(self, elsewhere: bool = False) -> dict[int, Tensor]:
        """Visit every node that the roots lead to and return the wanted gradients; ``elsewhere``: in a thread of its own."""
        # The graph, which is large by now, is about to be let go: to look for garbage in it is in vain.
        return without_collection(lambda: self._run(elsewhere))

    def _run(self, elsewhere: bool) -> dict[int, Tensor]:
        saved, outer = recording.enabled, running.task
        if outer is not None and not elsewhere:
            self.depth = outer.depth + 1
            if not self.depth % DEEP:
                return go_on_elsewhere(lambda: self.run(elsewhere=True))
        recording.enabled, running.task = self.create_graph, self
        try:
            needed = None if self.wanted is None or self.floor >= 0 else self._nodes_leading_to_wanted()
            if order.seen and self.floor < 0:
                self.missing = self._on_their_way(needed)
            for edge, gradient in self.roots:
                self.send(edge, gradient)
            asked = {node for node, _ in self.wanted or ()}
            while self.heap or self._incomplete():
                node = heapq.heappop(self.heap)[2]
                gradients = [each.total() if each.__class__ is Pieces else each for each in self.arriving.pop(node)]
                if node.sequence < self.floor:
                    self._return(node, gradients)
                    continue
                runs = needed is None or node in needed
                if not runs and node not in asked:
                    continue
                if runs:
                    # As in PyTorch: what is asked for of a tensor that the pass goes on from is what its hooks see.
                    self._return(node, gradients)
                if node.pre_hooks or node.retained:
                    self.exposed = True
                    apply_tensor_hooks(node, gradients)
                if runs:
                    self._visit(node, gradients)
                else:
                    self._return(node, gradients)
            # The list grows where a callback asks for another one.
            for each in self.callbacks:
                each()
        finally:
            recording.enabled, running.task = saved, outer
        return self.results

    def _incomplete(self) -> bool:
        """Have leaves run that got fewer gradients than were on their way; return whether there are any."""
        for node in self.arriving:
            heapq.heappush(self.heap, (-node.sequence, next(self.turns), node))
        return bool(self.heap)

    def _return(self, node: Node, gradients: list[Any]) -> None:
        """Keep the gradients that were asked for."""
        if self.wanted is not None:
            for number, gradient in enumerate(gradients):
                position = self.wanted.get((node, number))
                if position is not None and gradient is not None:
                    self.results[position] = gradient

    def _visit(self, node: Node, gradients: list[Any]) -> None:
        running.nodes.append(node)
        try:
            if node.node_pre_hooks:
                self.exposed = True
                gradients = apply_node_pre_hooks(node, gradients)
            parts = node.run(gradients) if not recording.transforms else run_with_batches[0](node, gradients)
            if anomaly.enabled and anomaly.check_nan:
                _refuse_nan(node, parts)
        except Exception:
            if anomaly.enabled:
                tell_place(node)
            raise
        finally:
            running.nodes.pop()
        if len(parts) < len(node.edges):
            raise RuntimeError(
                f"function {node.title} returned an incorrect number of gradients (expected {len(node.edges)}, got "
                f"{len(parts)})"
            )
        if node.hooks:
            self.exposed = True
            parts = apply_node_hooks(node, parts, gradients)
        if not self.retain_graph:
            node.release()
        for edge, part in zip(node.edges, parts, strict=False):
            if edge is not None:
                self.send(edge, part)

    def _on_their_way(self, needed: set[Node] | None) -> Counter[Node] | None:
        """Return how many gradients each leaf will get, from the roots and from the nodes that run; None if one of these can only raise."""
        found = Counter(node for (node, _), _ in self.roots if node.sequence < 0)
        seen: set[Node] = set()
        stack = [node for (node, _), _ in self.roots]
        while stack:
            node = stack.pop()
            if node in seen or (needed is not None and node not in needed):
                continue
            seen.add(node)
            if node.backward is None:
                # No leaf has got anything then, however many nodes a call is.
                return None
            for edge in node.edges:
                if edge is not None and edge[0].sequence < 0:
                    found[edge[0]] += 1
                elif edge is not None:
                    stack.append(edge[0])
        return found

    def _nodes_leading_to_wanted(self) -> set[Node]:
        """Return the nodes that must run for the wanted edges to receive their gradients, and the last ones themselves."""
        targets = {node for node, _ in self.wanted or ()} | self.last
        leads: dict[Node, bool] = {}
        stack = [(node, False) for (node, _), _ in self.roots]
        while stack:
            node, done = stack.pop()
            children = [edge[0] for edge in node.edges if edge is not None]
            if done:
                leads[node] = any(leads.get(child, False) or child in targets for child in children)
            elif node not in leads:
                leads[node] = False
                stack.append((node, True))
                stack.extend((child, False) for child in children)
        return {node for node, found in leads.items() if found or node in self.last}

    def will_visit(self, node: Node) -> bool:
        """Return whether a node's gradient will be known in this pass."""
        if self.executing is None:
            if self.wanted is not None:
                self.executing = self._nodes_leading_to_wanted() | {each for each, _ in self.wanted}
            else:
                self.executing = reachable([edge for edge, _ in self.roots])
        return node in self.executing


def queue_callback(callback: Callable[[], object]) -> None:
    """Call a function when the backward pass that runs is over.

    Raises:
        RuntimeError: none runs in this thread.
    """
    if running.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    running.task.callbacks.append(callback)


def reachable(edges: Sequence[Edge]) -> set[Node]:
    """Return the nodes that edges lead to."""
    found: set[Node] = set()
    stack = [node for node, _ in edges]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(edge[0] for edge in node.edges if edge is not None)
    return found


def _run_part(
    roots: list[tuple[Edge, Tensor]], wanted: dict[Edge, int], create_graph: bool, floor: int
) -> dict[int, Tensor]:
    part = Pass(roots, wanted, create_graph, create_graph)
    part.floor = floor
    return part.run()


passes.append(_run_part)


def _refuse_nan(node: Node, parts: Sequence[Any]) -> None:
    saved, recording.enabled = recording.enabled, False
    try:
        for number, part in enumerate(parts):
            if part is not None and part.dtype.category >= 2 and bool((part != part).any()):
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")
    finally:
        recording.enabled = saved


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if _is_edge(value):
        return (value,)
    return (value,) if hasattr(value, "_gradient_edge") else tuple(value)


def _is_edge(value: Any) -> bool:
    return hasattr(value, "output_nr") and hasattr(value, "node")


def _edge_of(value: Any) -> Edge | None:
    """Return the edge of a tensor or of a ``GradientEdge``."""
    return (value.node, value.output_nr) if _is_edge(value) else value._gradient_edge()


def _checked_inputs(inputs: Any, function: str) -> tuple[Any, ...]:
    inputs = _as_tuple(inputs)
    if not inputs:
        raise RuntimeError(f"`inputs` argument to `{function}()` cannot be empty.")
    for each in inputs:
        if not isinstance(each, Tensor) and not _is_edge(each):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(each).__name__}")
    return inputs


def _roots(tensors: tuple[Any, ...], gradients: Any) -> list[tuple[Edge, Any]]:
    seeds = (None,) * len(tensors) if gradients is None else _as_tuple(gradients)
    if len(seeds) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(seeds)} gradients")
    roots = []
    for index, (tensor, seed) in enumerate(zip(tensors, seeds, strict=True)):
        if _is_edge(tensor):
            if seed is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            roots.append(((tensor.node, tensor.output_nr), seed))
            continue
        edge = tensor._gradient_edge()
        if edge is None:
            raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        roots.append((edge, _seed(tensor, seed, index)))
    return roots


def _seed(tensor: Any, seed: Any, index: int) -> Any:
    """Return the gradient to start a tensor with."""
    if seed is None:
        if tensor.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if tensor.dtype.is_complex:
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype!r}")
        return tensor.detach().new_ones(tensor.shape)
    if seed.shape != tensor.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {seed.shape} and output[{index}] has a shape of "
            f"{tensor.shape}."
        )
    if seed.dtype.is_complex != tensor.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{index}] has a dtype of {seed.dtype!r} and output[{index}] has a dtype of {tensor.dtype!r}."
        )
    return tensor._as_cotangent(seed if seed.dtype is tensor.dtype else seed.to(tensor.dtype))


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of ``tensors`` with respect to the leaves to their ``.grad``, as :func:`torch.autograd.backward`.

    Raises:
        RuntimeError: a tensor has no gradient, is not a scalar and got no gradient of its own, or its graph was freed; inside
            of a function that ``torch.func`` transforms.
    """
    if recording.transforms or running_batches[0]():
        raise RuntimeError(_INSIDE_OF_TRANSFORM)
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", category=FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = _checked_inputs(inputs, "backward")
    if create_graph:
        warn_once(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can "
            "cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
            "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak."
        )
    roots = _roots(_as_tuple(tensors), grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        Pass(roots, None, create_graph, keep).run()
        return
    nodes: set[Node] = set()
    for each in inputs:
        if not _is_edge(each):
            # Leaves' nodes accumulate by themselves.
            each.retain_grad()
        edge = _edge_of(each)
        if edge is not None:
            nodes.add(edge[0])
    Pass(roots, {}, create_graph, keep, frozenset(nodes)).run()


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return the gradients of ``outputs`` with respect to ``inputs``, as :func:`torch.autograd.grad`.

    Raises:
        RuntimeError: an input does not require a gradient, or was not used and ``allow_unused`` is not set.
        ValueError: ``materialize_grads`` together with ``allow_unused=False``.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
            "parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    keep = create_graph if retain_graph is None else retain_graph
    inputs = _checked_inputs(inputs, "grad")
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, keep, create_graph, allow_unused, materialize_grads)
    edges = [_edge_of(each) for each in inputs]
    if any(edge is None for edge in edges):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    wanted: dict[Any, int] = {}
    for index, edge in enumerate(edges):
        wanted.setdefault(edge, index)
    found = Pass(_roots(_as_tuple(outputs), grad_outputs), wanted, create_graph, keep).run()
    results = [
        gradient if gradient is None or _is_edge(each) else each._as_gradient(gradient)
        for each, gradient in zip(inputs, (found.get(wanted[edge]) for edge in edges), strict=True)
    ]
    for index, result in enumerate(results):
        if result is None and materialize_grads:
            if _is_edge(inputs[index]):
                raise RuntimeError(
                    "materialize_grads cannot be used when the given input is a GradientEdge and its gradient is not computed"
                )
            # A constant, which may be differentiated again where the others may.
            results[index] = inputs[index].detach().new_zeros(inputs[index].shape).requires_grad_(create_graph)
        elif result is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
    return tuple(results)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors along a new dimension, whatever their classes."""
    return OPERATIONS["stack"].function(tensors, dim)


def _batched(
    outputs: Any, inputs: Any, grad_outputs: Any, keep: bool, create_graph: bool, allow_unused: Any, materialize: bool
) -> tuple[Any, ...]:
    """Return gradients for every one of a batch of cotangents, stacked."""
    tensors, seeds = _as_tuple(outputs), _as_tuple(grad_outputs)
    for index, (tensor, seed) in enumerate(zip(tensors, seeds, strict=True)):
        if seed is not None and seed.shape[1:] != tensor.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
                "The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a "
                f"mismatch was detected: grad_output[{index}] has a shape of {seed.shape[1:]} and output[{index}] has a "
                f"shape of {tensor.shape}. If you only want some tensors in `grad_output` to be considered batched, "
                "consider using vmap."
            )
    count = next(seed.shape[0] for seed in seeds if seed is not None)
    rows = []
    for number in range(count):
        one = [None if seed is None else seed[number] for seed in seeds]
        again = keep or number + 1 < count
        rows.append(grad(tensors, inputs, one, again, create_graph, True, allow_unused, False, materialize))
    return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))
