"""The backward pass: visit nodes from the newest to the oldest, summing what arrives at each."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from .grad_mode import recording
from .node import AccumulateGrad, Node


def _gradient_edge(tensor: Any) -> tuple[Node, int] | None:
    return tensor._gradient_edge()


def run(
    roots: Sequence[tuple[tuple[Node, int], Any]],
    wanted: dict[Any, int] | None,
    create_graph: bool,
    retain_graph: bool,
) -> dict[int, Any]:
    """Send gradients from the roots down the graph.

    Args:
        roots: (edge, gradient) pairs to start from.
        wanted: edges whose gradients to return instead of accumulating, numbered; None accumulates into leaves.
        create_graph: record the pass itself, for higher derivatives.
        retain_graph: keep what nodes saved.
    """
    arriving: dict[Node, list[Any]] = {}
    heap: list[tuple[int, int, Node]] = []
    results: dict[int, Any] = {}

    def send(edge: tuple[Node, int], gradient: Any) -> None:
        node, number = edge
        inbox = arriving.get(node)
        if inbox is None:
            inbox = arriving[node] = [None] * node.output_count
            heapq.heappush(heap, (-node.sequence, id(node), node))
        inbox[number] = gradient if inbox[number] is None else inbox[number] + gradient

    saved = recording.enabled
    recording.enabled = create_graph
    try:
        for edge, gradient in roots:
            send(edge, gradient)
        needed = None if wanted is None else _nodes_leading_to([edge for edge, _ in roots], wanted)
        while heap:
            node = heapq.heappop(heap)[2]
            gradients = arriving.pop(node)
            _apply_pre_hooks(node, gradients)
            if wanted is not None:
                for number, gradient in enumerate(gradients):
                    position = wanted.get((node, number))
                    if position is not None and gradient is not None:
                        results[position] = gradient
                if needed is not None and node not in needed:
                    continue
            _visit(node, gradients, send, wanted is None, retain_graph)
    finally:
        recording.enabled = saved
    return results


def _visit(node: Node, gradients: list[Any], send: Any, accumulate: bool, retain_graph: bool) -> None:
    if isinstance(node, AccumulateGrad):
        if accumulate:
            node.run(gradients)
        return
    if all(gradient is None for gradient in gradients):
        parts: Sequence[Any] = (None,) * len(node.edges)
    else:
        parts = node.run(gradients)
    if len(parts) < len(node.edges):
        raise RuntimeError(f"{node.title} returned {len(parts)} gradients, expected {len(node.edges)}")
    if node.hooks:
        for hook in list(node.hooks.values()):
            replaced = hook(tuple(parts), tuple(gradients))
            if replaced is not None:
                parts = replaced if isinstance(replaced, tuple) else (replaced,)
    if not retain_graph:
        node.release()
    for edge, part in zip(node.edges, parts, strict=False):
        if edge is not None and part is not None:
            send(edge, part)


def _apply_pre_hooks(node: Node, gradients: list[Any]) -> None:
    """Run tensor hooks on the gradients that arrived, and store those of ``retain_grad`` tensors."""
    if node.pre_hooks:
        for number, hooks in node.pre_hooks.items():
            for hook in list(hooks.values()) if isinstance(hooks, dict) else hooks:
                if gradients[number] is not None:
                    replaced = hook(gradients[number])
                    if replaced is not None:
                        gradients[number] = replaced
    if node.retained:
        for number, reference in node.retained.items():
            tensor = reference()
            if tensor is not None and gradients[number] is not None:
                tensor._accumulate_grad(gradients[number])


def _nodes_leading_to(roots: list[tuple[Node, int]], wanted: dict[tuple[Node, int], int]) -> set[Node]:
    """Return the nodes that must run for the wanted edges to receive their gradients."""
    targets = {node for node, _ in wanted}
    leads: dict[Node, bool] = {}
    stack = [(node, False) for node, _ in roots]
    while stack:
        node, done = stack.pop()
        children = [edge[0] for edge in node.edges if edge is not None]
        if done:
            leads[node] = any(leads.get(child, False) or child in targets for child in children)
        elif node not in leads:
            leads[node] = False
            stack.append((node, True))
            stack.extend((child, False) for child in children)
    return {node for node, found in leads.items() if found}


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _roots(tensors: tuple[Any, ...], gradients: Any) -> list[tuple[tuple[Node, int], Any]]:
    seeds = (None,) * len(tensors) if gradients is None else _as_tuple(gradients)
    if len(seeds) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(seeds)} gradients")
    roots = []
    for index, (tensor, seed) in enumerate(zip(tensors, seeds, strict=True)):
        edge = _gradient_edge(tensor)
        if edge is None:
            raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        if seed is None:
            if tensor.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if tensor.dtype.is_complex:
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype!r}"
                )
            seed = tensor.detach().new_ones(tensor.shape)
        elif seed.shape != tensor.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{index}] has a shape of {seed.shape} and output[{index}] has a shape of "
                f"{tensor.shape}."
            )
        roots.append((edge, seed))
    return roots


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
        RuntimeError: a tensor has no gradient, is not a scalar and got no gradient of its own, or its graph was freed.
    """
    roots = _roots(_as_tuple(tensors), grad_tensors if grad_tensors is not None else grad_variables)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run(roots, None, create_graph, keep)
        return
    inputs = _as_tuple(inputs)
    if not inputs:
        raise RuntimeError("'inputs' argument to 'backward' cannot be empty.")
    wanted = {_gradient_edge(each): index for index, each in enumerate(inputs)}
    for index, gradient in run(roots, wanted, create_graph, keep).items():
        inputs[index]._accumulate_grad(gradient)


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
    """
    del only_inputs
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched=True is not supported; call grad once per gradient")
    inputs = _as_tuple(inputs)
    edges = [_gradient_edge(each) for each in inputs]
    if any(edge is None for edge in edges):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    results: list[Any] = [None] * len(inputs)
    wanted: dict[tuple[Node, int], int] = {}
    for index, edge in enumerate(edges):
        wanted.setdefault(edge, index)  # type: ignore[arg-type]
    found = run(_roots(_as_tuple(outputs), grad_outputs), wanted, create_graph, keep)
    for index, edge in enumerate(edges):
        results[index] = found.get(wanted[edge])  # type: ignore[index]
        if results[index] is None:
            if materialize_grads:
                results[index] = inputs[index].detach().new_zeros(inputs[index].shape)
            elif not allow_unused:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
                    "if this is the desired behavior."
                )
    return tuple(results)
