"""Graphs: functions as lists of nodes, which can be read, changed and written as Python code."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from webgpu_torch_core.notices import warn
from webgpu_torch_nn import Module

from .codegen import CodeGen as CodeGen
from .codegen import PythonCode as PythonCode
from .codegen import TransformCodeFunc as TransformCodeFunc
from .immutable_collections import Argument
from .naming import IN_PLACE as inplace_methods
from .naming import OPERATORS as magic_methods
from .naming import REFLECTABLE as reflectable_magic_methods
from .naming import Namespace as _Namespace
from .naming import snake_case as _snake_case
from .node import Node, Target, map_arg

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = [
    "CodeGen", "Graph", "PythonCode", "TransformCodeFunc", "inplace_methods", "magic_methods", "reflectable_magic_methods",
]  # fmt: skip

#: an argument or a result of a function that runs a graph
Value: TypeAlias = Any
#: what is kept beside a graph for whoever made it
Extras: TypeAlias = dict[str, Any]


class _Nodes:
    """The nodes of a graph in their order; those that are erased or moved meanwhile are met as the list stands then."""

    def __init__(self, graph: Graph, backward: bool = False) -> None:
        self.graph, self.backward = graph, backward

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        each = root._prev if self.backward else root._next
        while each is not root:
            following = each._prev if self.backward else each._next
            if not each._erased:
                # A node that was erased while this one was handled points to itself.
                yield each
                following = following if each._erased else (each._prev if self.backward else each._next)
            each = following

    def __reversed__(self) -> Iterator[Node]:
        return iter(_Nodes(self.graph, not self.backward))


class Graph:
    """A function as nodes in the order of their evaluation: inputs first, at the end what is returned.

    Args:
        owning_module: the module that the paths of ``call_module`` and ``get_attr`` begin at.
        tracer_cls: what made the graph.
        tracer_extras: what it keeps beside.
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: Extras | None = None,
    ) -> None:
        self._graph_namespace = _Namespace()
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._owning_module = owning_module
        self._owners = 0
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> GraphModule | None:
        """The one module whose graph this is; None if there are several, or none."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        if mod is not None:
            self._owners += 1
            self._owning_module = mod if self._owners == 1 else None

    @property
    def nodes(self) -> _Nodes:
        """The nodes, in their order, which can be reversed."""
        return _Nodes(self)

    def output_node(self) -> Node:
        """Return the node that returns."""
        return next(each for each in reversed(self.nodes) if each.op == "output")

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes of an operation, in their order, and of a target if one is given."""
        return [each for each in self.nodes if each.op == op and (target is None or each.target == target)]

    # Making

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: object | None = None,
    ) -> Node:
        """Make a node where nodes are inserted, at the end by default, and return it.

        Args:
            op, target, args, kwargs: see :class:`Node`.
            name: what its name is made of; by default its target.
            type_expr: the type of its value.
        """
        name = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name, None)
        made = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate_name_with_obj(name, made)
        self._insert(made)
        return made

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return _snake_case(name)

    def placeholder(
        self, name: str, type_expr: object | None = None, default_value: Argument = inspect.Signature.empty
    ) -> Node:
        """Make an input; ``*name`` takes all further arguments, ``**name`` those by name."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: object | None = None) -> Node:
        """Make a node that reads an attribute of the module by its path."""
        if self.owning_module is not None and not _has(self.owning_module, qualified_name):
            warn(
                f"Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule: {qualified_name}! "
                "Call GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
                "Parameter, or nn.Module.register_buffer to add the necessary buffer",
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None,
        type_expr: object | None = None,
    ) -> Node:  # fmt: skip
        """Make a node that calls a module inside of the module by its path."""
        if self.owning_module is not None and not _has(self.owning_module, module_name):
            warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None,
        type_expr: object | None = None,
    ) -> Node:  # fmt: skip
        """Make a node that calls a method of its first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Value], args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: object | None = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """Make a node that calls a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: object | None = None) -> Node:
        """Make the node that returns something."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda each: each) -> Node:
        """Copy a node, of another graph perhaps.

        Args:
            node: the node.
            arg_transform: returns, given a node in its arguments, the one of this graph.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Argument:
        """Copy the nodes of another graph and return, in this one's nodes, what it returns.

        Args:
            g: the other graph.
            val_map: nodes of this graph that stand for some of the other's; the copies are added to it.
            return_output_node: return the other's output node, too.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda each: val_map[each])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda each: val_map[each])
        return None

    def __deepcopy__(self, memo: dict[int, Value] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        values: dict[Node, Node] = {}
        result = made.graph_copy(self, values, return_output_node=True)
        if result is not None:
            output, old = result
            node = made.output(output, old.type)
            node.meta = copy.copy(old.meta)
        made._codegen = copy.deepcopy(self._codegen)
        return made

    # Changing

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out.

        Raises:
            RuntimeError: others use it, or it is in another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warn(f"erase_node({to_erase}) on an already erased node")
            return
        before, after = to_erase._prev, to_erase._next
        to_erase._remove_from_list()
        # Whoever goes through the list is led on.
        to_erase._prev, to_erase._next = before, after
        to_erase._erased = True
        to_erase._update_args_kwargs(map_arg(to_erase.args, lambda _: None), map_arg(to_erase.kwargs, lambda _: None))

    def inserting_before(self, n: Node | None = None) -> contextlib.AbstractContextManager[None]:
        """Insert nodes before a node, the first one by default: from here on, or in a ``with`` block."""
        return self.inserting_after(self._root) if n is None else self._inserting(n, n.prepend)

    def inserting_after(self, n: Node | None = None) -> contextlib.AbstractContextManager[None]:
        """Insert nodes after a node, the last one by default: from here on, or in a ``with`` block."""
        return self.inserting_before(self._root) if n is None else self._inserting(n, n.append)

    def _inserting(self, n: Node, insert: Callable[[Node], None]) -> contextlib.AbstractContextManager[None]:
        assert n.graph is self, "Node to insert before is not in graph."
        before, self._insert = self._insert, insert

        @contextlib.contextmanager
        def block() -> Iterator[None]:
            try:
                yield
            finally:
                self._insert = before

        return block()

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out the nodes that nobody uses and that do nothing else, and return whether there were any.

        Args:
            is_impure_node: tells of a node whether it does something else; by default :meth:`Node.is_impure`.

        Raises:
            RuntimeError: the graph is not in order: see :meth:`lint`.
        """
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """Look whether all is in order: values defined before their use, names given once, and targets there.

        Raises:
            RuntimeError: something is not.
        """
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            for arg in node.all_input_nodes:
                if arg.graph is not self:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but was used as an argument!\n{self}"
                    )
                if arg not in seen:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' was used before it has been defined! Please check that Nodes in the "
                        f"graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._check_target(node, self.owning_module)

    def _check_target(self, node: Node, owner: Value) -> None:
        parts = str(node.target).split(".")
        for place, part in enumerate(parts):
            seen = ".".join(parts[:place])
            owner = getattr(owner, part, None)
            if owner is None:
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of {seen}"
                )
            if node.op == "call_module" and not isinstance(owner, Module):
                raise RuntimeError(f"Node {node} target {node.target} {part} of {seen} does not reference an nn.Module")

    # Running and writing

    def process_inputs(self, *args: Value) -> Value:
        """Return the graph's inputs, given its function's arguments."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Value) -> Value:
        """Return what its function returns, given what the graph does."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another writer make the code."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Let a function change the lines of the code's body: from here on, or in a ``with`` block.

        Args:
            make_transformer: returns the function, given the one that there is, or None.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def block() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return block()

    def python_code(self, root_module: str) -> PythonCode:
        """Return the graph as Python code.

        Args:
            root_module: what the code calls the module, ``"self"`` for instance.
        """
        namespace = _Namespace()
        before = {node: node._repr_fn for node in self.nodes}
        for node in before:
            node._repr_fn = lambda each: namespace.create_name(each.name, each)
        try:
            return self._codegen._gen_python_code(self.nodes, root_module, namespace)
        finally:
            for node, function in before.items():
                node._repr_fn = function

    def __str__(self) -> str:
        names: list[str] = []
        lines = [each.format_node(names) for each in self.nodes]
        return "\n    ".join([f"graph({', '.join(names)}):", *(each for each in lines if each)])

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        heads = ("opcode", "name", "target", "args", "kwargs")
        rows = [
            heads,
            *((each.op, each.name, str(each.target), str(each.args), str(each.kwargs)) for each in self.nodes),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        print("\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]]))


def _has(module: Value, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
