"""A module's call with example arguments, noted as a graph."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import webgpu_torch as torch
from webgpu_torch.utils._pytree import tree_flatten, tree_unflatten
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module

from webgpu_torch_tools.fx import Graph, Node

from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, named_input
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from .sizes import Sizes, of_dimension, of_input
from .tracing import Tracing

Value: TypeAlias = Any
_PREFIXES = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}
_OTHER = re.compile(r"[^a-zA-Z0-9]")


class _Inputs:
    """The inputs of a graph in the making: parameters, buffers, constants, and what users give."""

    def __init__(self, module: Module, graph: Graph) -> None:
        self.graph, self.module = graph, module
        self.specs: dict[Node, InputSpec] = {}
        self.first_given: Node | None = None
        self.state: dict[str, Tensor] = {}
        self.constants: dict[str, Tensor] = {}
        self._paths = _tensors_by_identity(module)

    def lifted(self, kind: InputKind, path: str, persistent: bool | None = None) -> Node:
        """Return a new input for a tensor of the module, before those that users give."""
        name = _PREFIXES[kind] + _OTHER.sub("_", path)
        place = contextlib.nullcontext() if self.first_given is None else self.graph.inserting_before(self.first_given)
        with place:
            node = named_input(self.graph, name)
        self.specs[node] = InputSpec(kind, TensorArgument(node.name), path, persistent)
        return node

    def constant(self, tensor: Tensor) -> Node:
        """Return the input for a tensor that is neither a parameter nor a buffer."""
        path = self._paths.get(id(tensor)) or f"lifted_tensor_{len(self.constants)}"
        self.constants[path] = tensor
        return self.lifted(InputKind.CONSTANT_TENSOR, path)


def _tensors_by_identity(module: Module) -> dict[int, str]:
    """Return paths of tensors that are plain attributes of modules."""
    found: dict[int, str] = {}
    for prefix, each in module.named_modules():
        for name, value in vars(each).items():
            if isinstance(value, Tensor):
                found.setdefault(id(value), f"{prefix}.{name}" if prefix else name)
    return found


def _input_names(module: Module, args: tuple[Value, ...], kwargs: dict[str, Value]) -> list[str]:
    """Return a name for each leaf of the arguments: the parameter's, and where the leaf is in it."""
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError:
        bound = None
    named: list[tuple[str, Value]] = []
    if bound is None:
        named = [*((f"args_{place}", each) for place, each in enumerate(args)), *kwargs.items()]
    else:
        for parameter in bound.signature.parameters.values():
            if parameter.name not in bound.arguments:
                continue
            value = bound.arguments[parameter.name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                named += [(f"{parameter.name}_{place}", each) for place, each in enumerate(value)]
            elif parameter.kind is not parameter.VAR_KEYWORD:
                if parameter.name not in kwargs:
                    named.append((parameter.name, value))
        named += [(name, kwargs[name]) for name in kwargs]
    return [name for prefix, value in named for name in _leaf_names(prefix, value)]


def _leaf_names(prefix: str, value: Value) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from _leaf_names(f"{prefix}_{place}", each)
    elif isinstance(value, dict):
        for key in value:
            yield from _leaf_names(f"{prefix}_{_OTHER.sub('_', str(key))}", value[key])
    else:
        leaves = tree_flatten(value)[0]
        yield from ([prefix] if len(leaves) == 1 else [f"{prefix}_{place}" for place in range(len(leaves))])


def _specs_of_leaves(args: tuple[Value, ...], kwargs: dict[str, Value], names: list[str], shapes: Value) -> list[Value]:
    """Return what ``dynamic_shapes`` says of each leaf of the arguments."""
    found: list[Value] = []
    for place, each in enumerate((*args, *kwargs.values())):
        name = (
            list(kwargs)[place - len(args)]
            if place >= len(args)
            else names[len(found)]
            if len(found) < len(names)
            else ""
        )
        spec = of_input(shapes, name, place)
        leaves, structure = tree_flatten(each)
        if structure.is_leaf() or spec is None:
            found += [spec] * len(leaves)
        else:
            found += _specs_inside(each, spec)
    return found


def _specs_inside(value: Value, spec: Value) -> list[Value]:
    if isinstance(value, dict):
        return [leaf for key in value for leaf in _specs_inside(value[key], None if spec is None else spec.get(key))]
    if isinstance(value, list | tuple):
        return [
            leaf
            for place, each in enumerate(value)
            for leaf in _specs_inside(each, None if spec is None else spec[place])
        ]
    return [spec] * len(tree_flatten(value)[0])


class _Export:
    """One export."""

    def __init__(
        self, module: Module, args: tuple[Value, ...], kwargs: dict[str, Value], shapes: Value, tracing: type[Tracing]
    ) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.graph = Graph()
        self.inputs = _Inputs(module, self.graph)
        self.sizes = Sizes()
        self.tracing = tracing(self.graph, self.inputs.constant, shapes is not None)
        self.names = _input_names(module, args, kwargs)
        self.shapes = shapes

    def run(self) -> ExportedProgram:
        buffers = self._place_state()
        flat, self.in_spec = tree_flatten((self.args, self.kwargs))
        specs = _specs_of_leaves(self.args, self.kwargs, self.names, self.shapes)
        given = [self._place_given(name, each, spec) for name, each, spec in zip(self.names, flat, specs, strict=True)]
        args, kwargs = tree_unflatten(given, self.in_spec)
        with torch.no_grad(), self.tracing, _exporting():
            result = torch.func.functional_call(self.module, buffers, args, kwargs)
        outputs, self.out_spec = tree_flatten(result)
        nodes = [self.tracing.argument(each) for each in outputs]
        self.graph.output(tuple(nodes))
        self._drop_unused()
        return self._program([self._output(each) for each in nodes])

    def _place_state(self) -> dict[str, Tensor]:
        """Make inputs for parameters and buffers; return the copies that take the place of buffers meanwhile."""
        for path, parameter in self.module.named_parameters():
            self.inputs.state[path] = parameter
            self.tracing.place(parameter, self.inputs.lifted(InputKind.PARAMETER, path))
        saved, copies = self.module.state_dict(keep_vars=True), dict[str, Tensor]()
        for path, buffer in self.module.named_buffers():
            # Programs write into buffers: an export leaves the module's as they are.
            copies[path] = buffer.clone()
            kept = path in saved
            (self.inputs.state if kept else self.inputs.constants)[path] = buffer
            self.tracing.place(copies[path], self.inputs.lifted(InputKind.BUFFER, path, kept))
        return copies

    def _place_given(self, name: str, value: Value, spec: Value) -> Value:
        node = named_input(self.graph, name)
        if self.inputs.first_given is None:
            self.inputs.first_given = node
        if not isinstance(value, Tensor):
            self.inputs.specs[node] = InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, value), None)
            node.meta["val"] = value
            return value
        self.inputs.specs[node] = InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None)
        found = [
            self.sizes.other_size(of_dimension(spec, place, name), size, f"dimension {place} of {name}")
            for place, size in enumerate(value.shape)
        ]
        copied = value.detach().clone()
        other = torch.empty([size for size, _ in found], dtype=value.dtype, device="meta")
        self.tracing.place(copied, node, other)
        node.meta["dims"] = tuple(each for _, each in found)
        return copied

    def _output(self, node: Value) -> OutputSpec:
        if not isinstance(node, Node):
            return OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", node), None)
        kind = TensorArgument if isinstance(node.meta["val"], Tensor) else SymIntArgument
        return OutputSpec(OutputKind.USER_OUTPUT, kind(node.name), None)

    def _drop_unused(self) -> None:
        """Take out what nobody uses and what writes nowhere, and constants that were looked at and not used."""
        for node in reversed(self.graph.nodes):
            if node.users or node.op == "output":
                continue
            if node.op == "call_function" and not _writes(node):
                self.graph.erase_node(node)
            elif node.op == "placeholder" and self.inputs.specs[node].kind is InputKind.CONSTANT_TENSOR:
                del self.inputs.constants[str(self.inputs.specs.pop(node).target)]
                self.graph.erase_node(node)

    def _program(self, outputs: list[OutputSpec]) -> ExportedProgram:
        order = [self.inputs.specs[node] for node in self.graph.find_nodes(op="placeholder")]
        signature = ExportGraphSignature(order, outputs)
        user = [each.arg for each in order if each.kind is InputKind.USER_INPUT]
        whole = ModuleCallSignature(list(user), [each.arg for each in outputs], self.in_spec, self.out_spec)
        return ExportedProgram(
            self.module, self.graph, signature, self.inputs.state, self.sizes.ranges, [ModuleCallEntry("", whole)],
            (self.args, self.kwargs), self.inputs.constants,
        )  # fmt: skip


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_known_schema", None)
    return schema is not None and schema.is_mutable


@contextlib.contextmanager
def _exporting() -> Iterator[None]:
    """Let programs see that they are being exported."""
    from webgpu_torch import compiler

    compiler._exporting.append(True)
    try:
        yield
    finally:
        compiler._exporting.pop()


def exported(
    module: Module, args: tuple[Value, ...], kwargs: dict[str, Value], shapes: Value, tracing: type[Tracing] = Tracing
) -> ExportedProgram:
    """Return a module's computation, noted by a class of :class:`~.tracing.Tracing`; see :func:`export`."""
    return _Export(module, args, kwargs, shapes, tracing).run()


def export(
    mod: Module, args: tuple[Value, ...], kwargs: dict[str, Value] | None = None, *, dynamic_shapes: Value = None,
    strict: bool = False, preserve_module_call_signature: tuple[str, ...] = (), prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """Return a module's computation as a graph of PyTorch's operations.

    The module is called once with the example arguments; Python's branches are taken as they come.

    Args:
        mod: the module.
        args: its arguments, kwargs: those by name.
        dynamic_shapes: for arguments by name or in their order, a :class:`Dim` for each dimension whose size changes, by number.
        strict: makes no difference: Python runs as it is.

    Raises:
        ValueError: no module, or a size outside of its dimension's bounds.
        TypeError: arguments that are no tuple.
        RuntimeError: the program reads values of tensors, or its graph would be right for the example's sizes only.
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    return exported(mod, args, kwargs or {}, dynamic_shapes)
