"""Python code of graphs."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import webgpu_torch
from webgpu_torch_core import Tensor

from .immutable_collections import Argument
from .naming import (
    IN_PLACE,
    OPERATORS,
    Namespace,
    attribute,
    is_operator,
    qualified_name,
    torch_path,
    type_name,
)  # fmt: skip
from .node import Node

#: arguments and results of a traced function
Values: TypeAlias = Any
Globals: TypeAlias = dict[str, Any]
TransformCodeFunc: TypeAlias = Callable[[list[str]], list[str]]


def known_globals() -> Globals:
    """Return what generated code may name without more ado."""
    found: Globals = {"inf": float("inf"), "nan": float("nan"), "NoneType": type(None), "torch": webgpu_torch}
    return {**found, "device": webgpu_torch.device}


@dataclasses.dataclass
class PythonCode:
    """Code of a graph: its text, and the values of the names that it uses."""

    src: str
    globals: Globals


class CodeGen:
    """Writes a graph as a function: subclasses change its head, what it returns, and how inputs become arguments."""

    #: may change the lines of the body
    _body_transformer: TransformCodeFunc | None = None
    _func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the head of the function.

        Args:
            free_vars: its parameters, with annotations and defaults.
            maybe_return_annotation: `` -> type``, or nothing.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument, *, repr_fn: Callable[[object], str] = repr) -> str:
        """Return the line that returns."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Values) -> Values:
        """Return the graph's inputs, given the function's arguments."""
        return args

    def process_outputs(self, outputs: Values) -> Values:
        """Return what the function returns, given what the graph does."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Values]]:
        """Return names, and their values, that the code uses beside those of nodes."""
        return []

    def _gen_python_code(self, nodes: Iterable[Node], root_module: str, namespace: Namespace) -> PythonCode:
        return _Writer(self, root_module, namespace).write(list(nodes))


class _Writer:
    """Writes one function."""

    def __init__(self, codegen: CodeGen, root_module: str, namespace: Namespace) -> None:
        self.codegen, self.root, self.namespace = codegen, root_module, namespace
        self.parameters: list[str] = []
        self.body: list[str] = []
        self.globals: Globals = {}
        self.wrapped: dict[str, None] = {}
        self.annotation = ""
        for name, value in known_globals().items():
            self.name_of(name, value)

    def write(self, nodes: list[Node]) -> PythonCode:
        last_uses = _last_uses(nodes)
        for node in nodes:
            self.emit(node)
            if node.op != "placeholder":
                unused = [*last_uses.get(node, []), *(() if node.users or node.op == "output" else (node,))]
                self.body.append(
                    f";  {' = '.join([*map(repr, unused), 'None'])}\n" if unused and node.op != "output" else "\n"
                )
        body = self.body or ["pass\n"]
        marks = ""
        if self.wrapped:
            mark = self.name_of("wrap", webgpu_torch.fx.wrap)
            marks = "\n".join(f'{mark}("{name}")' for name in self.wrapped)
        if self.codegen._body_transformer is not None:
            body = self.codegen._body_transformer(body)
        for name, value in self.codegen.additional_globals():
            self.name_of(name, value)
        head = self.codegen.gen_fn_def(self.parameters, self.annotation)
        code = "\n".join("    " + line for line in "".join(body).lstrip("\n").split("\n"))
        return PythonCode(f"\n{marks}\n\n{head}\n{code}", self.globals)

    def name_of(self, hint: str, value: Values) -> str:
        """Return how the code names something that is not in the graph."""
        path = None if value is webgpu_torch.device else torch_path(value)
        if path is not None:
            return path
        name = self.namespace.create_name(hint, value)
        self.globals[name] = value
        return name

    def type_of(self, kind: object) -> str:
        """Return how the code names a type."""
        if kind == ():
            return "()"
        inside = typing.get_args(kind)
        if isinstance(kind, types.UnionType):
            return "|".join(map(self.type_of, inside))
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.name_of(type_name(kind), kind)
        if type(kind).__module__ == "typing":
            origin = getattr(typing, getattr(kind, "_name", None) or "", origin)
        name = self.name_of(type_name(origin), origin)
        return f"{name}[{','.join(map(self.type_of, inside))}]" if inside else name

    def text(self, arg: Argument) -> str:
        """Return the code of an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return self.name_of(qualified_name(type(arg)), type(arg)) + repr(tuple(arg))
        if isinstance(arg, enum.Enum):
            return f"{self.name_of(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, Tensor):
            return f"torch.Tensor(size={list(arg.shape)}, dtype={str(arg.dtype).rpartition('.')[2]})"
        if isinstance(arg, tuple):
            return f"({', '.join(map(self.text, arg))}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.text, arg))}]"
        if isinstance(arg, slice):
            return f"slice({self.text(arg.start)}, {self.text(arg.stop)}, {self.text(arg.step)})"
        return repr(arg)

    def call(self, args: Iterable[Argument], kwargs: dict[str, Argument]) -> str:
        return ", ".join([*map(self.text, args), *(f"{name} = {self.text(each)}" for name, each in kwargs.items())])

    def emit(self, node: Node) -> None:
        """Write a node, without the end of the line."""
        kind = "" if node.type is None else f" : {self.type_of(node.type)}"
        begin = f"{node!r}{kind} = "
        target = str(node.target)
        if node.op == "placeholder":
            self.parameters.append(f"{target}{kind}" + (f" = {self.text(node.args[0])}" if node.args else ""))
            raw = target.replace("*", "")
            if raw != repr(node):
                self.body.append(f"{node!r} = {raw}\n")
        elif node.op == "call_method":
            method = attribute(self.text(node.args[0]), target)
            self.body.append(f"{begin}{method}({self.call(node.args[1:], node.kwargs)})")
        elif node.op == "call_module":
            self.body.append(f"{begin}{attribute(self.root, target)}({self.call(node.args, node.kwargs)})")
        elif node.op == "get_attr":
            self.body.append(f"{begin}{attribute(self.root, target)}")
        elif node.op == "output":
            self.annotation = "" if node.type is None else f" -> {self.type_of(node.type)}"
            self.body.append(self.codegen.generate_output(node.args[0], repr_fn=self.text))
        else:
            self.body.append(self.function(node, begin))

    def function(self, node: Node, begin: str) -> str:
        target: Any = node.target
        operands = [self.text(each) for each in node.args]
        if is_operator(target, OPERATORS):
            return begin + OPERATORS[target.__name__].format(*operands)
        if is_operator(target, IN_PLACE):
            return f"{IN_PLACE[target.__name__].format(*operands)};  {begin}{operands[0]}"
        name = self.name_of(qualified_name(target), target)
        if name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return begin + attribute(operands[0], node.args[1])
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)
        return f"{begin}{name}({self.call(node.args, node.kwargs)})"


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """Return, by node, the values that no node after it uses."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found
