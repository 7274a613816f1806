"""Questions about the backward pass that runs in this thread: hooks ask them."""

from __future__ import annotations

from webgpu_torch_core.autograd.engine import Pass, reachable
from webgpu_torch_core.record.node import Node, running


def _current_graph_task_id() -> int:
    """Return the number of the pass, -1 outside of one."""
    return -1 if running.task is None else running.task.number


def _running_pass(name: str) -> Pass:
    if running.task is None:
        raise RuntimeError(f"{name} should only be called during the backward pass")
    task: Pass = running.task
    return task


def _current_autograd_node() -> Node | None:
    """Return the node whose backward runs, None outside of one."""
    return running.nodes[-1] if running.nodes else None


def _will_engine_execute_node(node: Node) -> bool:
    """Return whether the pass runs a node.

    Raises:
        RuntimeError: something else than a node, no pass, or a leaf's node in a pass that returns gradients.
    """
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    task = _running_pass("_get_should_execute_nodes")
    if task.wanted and not node.edges and any(node is each for each, _ in task.wanted):
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return task.will_visit(node)


def _current_graph_task_execution_order() -> list[Node]:
    """Return the nodes that the pass runs, in the order of their turns.

    Raises:
        RuntimeError: no pass, or one that runs a part of its graph only.
    """
    task = _running_pass("_current_graph_task_execution_order")
    if task.wanted is not None:
        raise RuntimeError("task execution order is not supported where inputs are given")
    return sorted(reachable([edge for edge, _ in task.roots]), key=lambda node: -node.sequence)
