"""Running graphs node by node, to look at values or to make other graphs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, TypeAlias

from webgpu_torch_nn import Module

from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .immutable_collections import Argument, map_aggregate
from .node import Node, Target, map_arg
from .proxy import Proxy

Value: TypeAlias = Any
Values: TypeAlias = tuple[Any, ...]
Named: TypeAlias = dict[str, Any]


class Interpreter:
    """Runs a graph node by node: subclasses override what is done with each kind of node.

    Args:
        module: what the graph's paths begin at.
        garbage_collect_values: drop values after their last use.
        graph: the graph; by default the module's.
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph  # type: ignore[assignment]
        self.env: dict[Node, Value] = {}
        self.args_iter: Iterator[Value] = iter(())
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.name = "Interpreter"

    def run(
        self, *args: Value, initial_env: dict[Node, Value] | None = None, enable_io_processing: bool = True
    ) -> Value:
        """Return what the graph returns.

        Args:
            args: its inputs.
            initial_env: values of nodes that are known and not computed.
            enable_io_processing: let the graph's code generator make inputs of the arguments, and the result of the outputs.
        """
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        last_uses = self._last_uses() if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"While executing {node.format_node()}")
                raise
            for each in last_uses.get(node, ()):
                self.env.pop(each, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Value]) -> Value:
        """Return what the graph returns, given a list of its inputs, which is emptied."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def _last_uses(self) -> dict[Node, list[Node]]:
        seen: set[Node] = set()
        found: dict[Node, list[Node]] = {}
        for user in reversed(self.graph.nodes):
            for node in user.all_input_nodes:
                if node not in seen:
                    seen.add(node)
                    found.setdefault(user, []).append(node)
        return found

    def run_node(self, n: Node) -> Value:
        """Return a node's value."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return an input.

        Raises:
            RuntimeError: it is not given, and has no default.
        """
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return an attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return what a function returns."""
        assert callable(target)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return what a method of the first argument returns."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return what a module inside of the module returns."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return the result."""
        return args[0]

    def fetch_attr(self, target: str) -> Value:
        """Return what the module has at a path.

        Raises:
            RuntimeError: it has nothing there.
        """
        owner: Value = self.module
        parts = target.split(".")
        for place, part in enumerate(parts):
            if not hasattr(owner, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: place + 1])}")
            owner = getattr(owner, part)
        return owner

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Values, Named]:
        """Return a node's arguments with the values of the nodes in them."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return an argument with the values of the nodes in it.

        Raises:
            RuntimeError: one of them was not computed.
        """

        def value(each: Node) -> Value:
            if each not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {each}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[each]

        return map_arg(args, value)


class _Rewriting(Tracer):
    """Puts nodes into a graph that is being made, without looking into anything."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph, self.root = graph, root

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes another module of one, node by node: subclasses override what becomes of each kind of node.

    Args:
        module: the module.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _Rewriting(self.new_graph, module)

    def placeholder(self, target: Target, args: Values, kwargs: Named) -> Proxy:
        """Return a proxy of an input of the new graph."""
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: Values, kwargs: Named) -> Proxy:
        """Return a proxy of an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return a proxy of a module's call."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return a proxy of a function's call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Target, args: Values, kwargs: Named) -> Value:
        """Return a proxy of a method's call."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda each: each.node if isinstance(each, Proxy) else each))
        return GraphModule(self.module, self.new_graph)
