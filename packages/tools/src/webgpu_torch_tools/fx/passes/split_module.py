"""A graph module cut into several."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from webgpu_torch_nn import Module

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg

__all__ = ["split_module"]


class _Partition:
    """One of the pieces: its nodes, what it is given and what others use of it."""

    def __init__(self, name: str) -> None:
        self.name = f"submod_{name}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.before: dict[str, None] = {}

    def module(self, root: Module, names: dict[str, str] | None, keep: bool) -> GraphModule:
        """Return the piece."""
        graph, made = Graph(), dict[Node, Node]()
        for each in self.inputs:
            made[each] = graph.placeholder(each.name, type_expr=each.type)
            made[each].meta = each.meta.copy()
        for each in self.nodes:
            args, kwargs = (map_arg(given, made.__getitem__) for given in (each.args, dict(each.kwargs)))
            made[each] = graph.create_node(each.op, each.target, args, kwargs, each.name if keep else None, each.type)
            made[each].meta = each.meta.copy()
            if names is not None and each.op == "call_module":
                names[f"{self.name}.{each.target}"] = str(each.target)
        results = tuple(made[each] for each in self.outputs)
        if results:
            graph.output(results[0] if len(results) == 1 else results)
        return GraphModule(root, graph)


def _partitioned(graph: Graph, split_callback: Callable[[Node], object]) -> list[_Partition]:
    """Return the pieces, in the order in which they are met."""
    pieces: dict[str, _Partition] = {}
    place: dict[Node, _Partition] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        place[node] = pieces.setdefault(name, _Partition(name))
        place[node].nodes.append(node)
    for node in graph.nodes:
        for given in node.all_input_nodes:
            here, there = place.get(node), place.get(given)
            if here is there:
                continue
            if there is not None:
                there.outputs[given] = None
            if here is not None:
                here.inputs[given] = None
                if there is not None:
                    here.before[there.name] = None
    return list(pieces.values())


def _ordered(pieces: list[_Partition]) -> list[_Partition]:
    """Return pieces after those that they need."""
    found: list[_Partition] = []
    left = list(pieces)
    while left:
        done = {each.name for each in found}
        ready = next((each for each in left if done.issuperset(each.before)), None)
        if ready is None:
            raise RuntimeError("cycle exists between partitions!")
        found.append(ready)
        left.remove(ready)
    return found


def split_module(
    m: GraphModule, root_m: Module, split_callback: Callable[[Node], object], qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False, keep_original_node_name: bool = False, keep_original_input_name: bool = True,
) -> GraphModule:  # fmt: skip
    """Return a graph module that calls pieces of another, ``submod_0``, ``submod_1``, … as a function names them.

    Args:
        m: the graph module.
        root_m: the module that it was traced from, whose submodules the pieces call.
        split_callback: returns the name of the piece that a node belongs to.
        qualname_map: is given the name that each called submodule has in ``root_m``, by its name in the result.
        keep_original_order: makes no difference: pieces are called as early as their inputs allow, in the order they are met.
        keep_original_node_name: whether nodes keep their names; else they are named after what they call.
        keep_original_input_name: makes no difference: inputs keep theirs.

    Raises:
        RuntimeError: two pieces need each other.
    """
    graph, made, state = Graph(), dict[Node, Node](), dict[str, Any]()
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            made[node] = graph.node_copy(node, made.__getitem__)
            if node.op == "get_attr":
                state[str(node.target)] = operator.attrgetter(str(node.target))(m)
    for each in _ordered(_partitioned(m.graph, split_callback)):
        state[each.name] = each.module(root_m, qualname_map, keep_original_node_name)
        called = graph.call_module(each.name, tuple(made[given] for given in each.inputs))
        if len(each.outputs) == 1:
            made[next(iter(each.outputs))] = called
        else:
            for place, result in enumerate(each.outputs):
                made[result] = graph.call_function(operator.getitem, (called, place))
    for node in m.graph.find_nodes(op="output"):
        graph.output(map_arg(node.args[0], made.__getitem__))
    return GraphModule(state, graph)
