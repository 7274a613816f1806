"""Observed graphs made graphs of integers: where tensors are quantised, and where they become numbers again."""

from __future__ import annotations

from collections.abc import Callable

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch import quantize_per_tensor
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_nn import Module

from ...fx import Graph, GraphModule, Node
from ...fx.node import map_arg


class Converter:
    """Writes a graph anew.

    Args:
        model: the observed graph module, whose submodules are replaced.
        tables: ``modules``: what stands for which; ``handing_on``: what takes integers as they are; ``sums``: the operations of
            ``torch.ops.quantized`` for functions; ``relus``.
        swap: what makes the quantised module for an observed one.
        graph: an empty graph.
    """

    def __init__(
        self, model: GraphModule, tables: dict[str, Answer], swap: Callable[..., Answer], graph: Graph
    ) -> None:
        self.model, self.tables, self.swap, self.graph = model, tables, swap, graph
        #: nodes of the new graph for those of the old one: as numbers, and as integers
        self.numbers: dict[Node, Node] = {}
        self.integers: dict[Node, Node] = {}
        self.watched: dict[Node, Answer] = {}

    def convert(self) -> GraphModule:
        """Return the new graph module."""
        for node in self.model.graph.nodes:
            self._node(node)
        self.graph.lint()
        made = GraphModule(self.model, self.graph)
        made.training = False
        return made

    def _inner(self, node: Node) -> Answer:
        return self.model.get_submodule(str(node.target)) if node.op == "call_module" else None

    def _kind(self, node: Node) -> Answer:
        return type(self._inner(node)) if node.op == "call_module" else node.target

    def _observer(self, node: Node) -> Answer:
        """Return what observes a node's results, None if nothing does."""
        for each in node.users:
            if str(each.target).startswith("activation_post_process_") and each.op == "call_module":
                return self._inner(each)
        return None

    def _number(self, node: Node) -> Node:
        if node not in self.numbers:
            self.numbers[node] = self.graph.call_method("dequantize", (self.integers[node],))
        return self.numbers[node]

    def _integer(self, node: Node, user: Node) -> Node | None:
        """Return a node as integers, quantised where it is asked for first; None where nothing observed it."""
        if node not in self.integers:
            observer = self.watched.get(node)
            if observer is None or getattr(observer, "dtype", None) not in (torch.quint8, torch.qint8):
                return None
            scale, zero_point = observer.calculate_qparams()
            number = user.all_input_nodes.index(node)
            places = []
            for name, value in (("scale", scale.float().reshape(())), ("zero_point", zero_point.long().reshape(()))):
                path = f"{user.name}_input_{name}_{number}"
                self.model.register_buffer(path, value)
                places.append(self.graph.get_attr(path))
            self.integers[node] = self.graph.call_function(
                quantize_per_tensor, (self._number(node), *places, observer.dtype)
            )
        return self.integers[node]

    def _node(self, node: Node) -> None:
        if node.op == "call_module" and str(node.target).startswith("activation_post_process_"):
            self._watch(node)
            return
        kind = self._kind(node)
        done = node.meta.get("in_integers", False) and (
            (self._observer(node) is not None and kind in self.tables["modules"] and self._quantized(node))
            or (kind in self.tables["sums"] and self._sum(node))
            or (kind in self.tables["handing_on"] and self._handed_on(node))
        )
        if not done:
            self.numbers[node] = self.graph.node_copy(node, self._number)

    def _watch(self, node: Node) -> None:
        source = node.args[0]
        assert isinstance(source, Node)
        self.watched[node] = self._inner(node)
        for known in (self.numbers, self.integers):
            if source in known:
                known[node] = known[source]

    def _quantized(self, node: Node) -> bool:
        """Let a quantised module stand for an observed one."""
        inner, observer = self._inner(node), self._observer(node)
        table = isinstance(inner, nn.Embedding)
        given = {each: each if table else self._integer(each, node) for each in node.all_input_nodes}
        if any(each is None for each in given.values()):
            return False
        inner.activation_post_process = observer
        made: Module = self.swap(inner, self.tables["modules"])
        self.model.add_submodule(str(node.target), made)
        args = map_arg(node.args, lambda each: self._number(each) if table else given[each])  # type: ignore[arg-type]
        found = self.graph.call_module(str(node.target), args)  # type: ignore[arg-type]
        (self.numbers if table else self.integers)[node] = found
        return True

    def _sum(self, node: Node) -> bool:
        name = self.tables["sums"][node.target]
        given = {each: self._integer(each, node) for each in node.all_input_nodes}
        if not given or any(each is None for each in given.values()):
            return False
        if name == "cat":
            # All have one scale.
            self.integers[node] = self.graph.node_copy(node, lambda each: given[each])  # type: ignore[arg-type, return-value]
            return True
        if node.kwargs:
            return False
        after = next(iter(node.users)) if len(node.users) == 1 else None
        rectified = after is not None and self._observer(node) is None
        observer = self._observer(after) if rectified else self._observer(node)  # type: ignore[arg-type]
        if observer is None:
            return False
        operation = getattr(ops.quantized, f"{name}_relu" if rectified else name)
        args: Answer = map_arg(node.args, lambda each: given[each])  # type: ignore[return-value]
        if not all(isinstance(each, Node) for each in args):
            self.integers[node] = self.graph.call_function(operation, args)
            return True
        scale, zero_point = observer.calculate_qparams()
        self.integers[node] = self.graph.call_function(operation, (*args, float(scale), int(zero_point)))
        return True

    def _handed_on(self, node: Node) -> bool:
        """Let a node that takes integers as they are take them."""
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        if source is None or len(node.all_input_nodes) > 1:
            return False
        joined = self.tables["sums"].get(source.target) in ("add", "mul") and self._observer(source) is None
        if joined and source in self.integers:
            # The sum had its ReLU with it.
            self.integers[node] = self.integers[source]
            return True
        given = self._integer(source, node)
        if given is None:
            return False
        self.integers[node] = self.graph.node_copy(node, lambda each: given)
        return True
