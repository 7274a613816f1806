"""Exported programs: a graph of operations, what its inputs and outputs are, and the tensors that it needs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import webgpu_torch as torch
from webgpu_torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module, Parameter

from webgpu_torch_tools.fx import CodeGen, Graph, GraphModule, Node
from webgpu_torch_tools.fx.graph_module import _assign_attr

from .graph_signature import ConstantArgument, ExportGraphSignature, InputKind, InputSpec

Value: TypeAlias = Any


@dataclass
class ModuleCallSignature:
    """What a module takes and returns: nodes, and the structures that they are in."""

    inputs: list[Value]
    outputs: list[Value]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A module by its path, the empty one for the whole, and its signature."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclass
class CallSpec:
    """The structures of a program's inputs and outputs."""

    in_spec: TreeSpec
    out_spec: TreeSpec


class _TreeCodeGen(CodeGen):
    """Writes a function whose arguments and result have a structure."""

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the head of the function, and the line that takes its arguments apart."""
        names = [each.partition(":")[0].strip() for each in free_vars if each != "self"]
        head = f"def {self._func_name}(self, *args, **kwargs){maybe_return_annotation}:"
        return head + (f"\n    {', '.join(names)}, = self._flat_inputs(args, kwargs)" if names else "")

    def generate_output(self, output_args: Value, *, repr_fn: Callable[[object], str] = repr) -> str:
        """Return the line that puts the result together."""
        return f"return self._structured_output({repr_fn(output_args)})"


class ExportedModule(GraphModule):
    """What runs an exported program: a module with its parameters and buffers."""

    _spec: CallSpec
    _checks: list[tuple[str, Value]]

    def _flat_inputs(self, args: tuple[Value, ...], kwargs: dict[str, Value]) -> list[Value]:
        flat = flat_inputs(self._spec.in_spec, args, kwargs)
        for (name, expected), value in zip(self._checks, flat, strict=True):
            _check_input(name, expected, value)
        return flat

    def _structured_output(self, flat: Value) -> Value:
        return tree_unflatten(flat, self._spec.out_spec)


def flat_inputs(spec: TreeSpec, args: tuple[Value, ...], kwargs: dict[str, Value]) -> list[Value]:
    """Return a call's arguments as a list.

    Raises:
        TypeError: they have another structure than the example's.
    """
    expected = spec.children_specs[1]
    if expected.context is not None and set(expected.context) == set(kwargs):
        kwargs = {name: kwargs[name] for name in expected.context}
    flat, found = tree_flatten((tuple(args), kwargs))
    if found != spec:
        raise TypeError(
            f"Trying to flatten user inputs with exported input tree spec: \n{spec}\nbut actually got inputs with tree spec of: "
            f"\n{found}.\nPlease check that the inputs have the same number and type of args and kwargs as the ones you used "
            "when tracing."
        )
    return flat


@dataclass
class InputCheck:
    """What a tensor that users give has to be: its type, and its sizes, None or bounds where they change."""

    dtype: torch.dtype
    sizes: list[int | tuple[int, float]] = field(default_factory=list)


def _check_input(name: str, expected: Value, value: Value) -> None:
    if not isinstance(expected, InputCheck):
        if value is not expected and value != expected:
            raise AssertionError(
                f"Guard failed: {name} == {expected!r}: the graph is that of this value, not of {value!r}"
            )
        return
    if not isinstance(value, Tensor):
        raise AssertionError(f"Guard failed: {name} is a tensor, not {value!r}")
    if value.dtype is not expected.dtype:
        raise AssertionError(f"Guard failed: {name}.dtype == {expected.dtype}, not {value.dtype}")
    if value.dim() != len(expected.sizes):
        raise AssertionError(f"Guard failed: {name}.dim() == {len(expected.sizes)}, not {value.dim()}")
    for place, (size, found) in enumerate(zip(expected.sizes, value.shape, strict=True)):
        least, most = size if isinstance(size, tuple) else (size, size)
        if not least <= found <= most:
            wanted = f"== {least}" if least == most else f"in [{least}, {most}]"
            raise AssertionError(f"Guard failed: {name}.size()[{place}] {wanted}, not {found}")


class ExportedProgram:
    """A module's computation as a graph of operations, beside the tensors it needs; :meth:`module` returns what runs it.

    Args:
        root: the module that the graph belongs to, or a dictionary.
        graph: the graph: its inputs are parameters, buffers, constants and users' inputs, in this order.
        graph_signature: what each input and output is.
        state_dict: parameters and buffers that are saved, by path.
        range_constraints: smallest and greatest size, by the name of a dimension that changes.
        module_call_graph: the structures of inputs and outputs; those of the whole come first.
        example_inputs: the arguments, and those by name, that it was exported with.
        constants: other tensors, and buffers that are not saved, by path.
    """

    def __init__(
        self, root: Module | dict[str, Value], graph: Graph, graph_signature: ExportGraphSignature,
        state_dict: dict[str, Tensor], range_constraints: Mapping[str, Value],
        module_call_graph: list[ModuleCallEntry], example_inputs: Value = None, constants: dict[str, Value] | None = None,
    ) -> None:  # fmt: skip
        self._graph_module = GraphModule(root, graph)
        self._graph_signature, self._state_dict = graph_signature, state_dict
        self._range_constraints, self._module_call_graph = dict(range_constraints), module_call_graph
        self._example_inputs, self._constants = example_inputs, constants or {}

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module that takes all inputs of the graph, parameters too."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the graph's inputs and outputs are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by path."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Value]:
        """Other tensors by path."""
        return self._constants

    tensor_constants = constants

    @property
    def range_constraints(self) -> dict[str, Value]:
        """Smallest and greatest size, by the name of a dimension that changes."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The structures of inputs and outputs."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> Value:
        """The arguments, and those by name, that it was exported with."""
        return self._example_inputs

    @property
    def call_spec(self) -> CallSpec:
        """The structures of inputs and outputs of the whole."""
        signature = self._module_call_graph[0].signature
        assert signature is not None
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def dialect(self) -> str:
        """The kind of operations in the graph: PyTorch's, in-place ones among them."""
        return "TRAINING"

    def parameters(self) -> Iterator[Parameter]:
        """Return the parameters."""
        return (each for _, each in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Return the parameters with their paths."""
        return ((name, self._tensor(name)) for name in self._graph_signature.parameters)

    def buffers(self) -> Iterator[Tensor]:
        """Return the buffers."""
        return (each for _, each in self.named_buffers())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Return the buffers with their paths."""
        return ((name, self._tensor(name)) for name in self._graph_signature.buffers)

    def _tensor(self, path: str) -> Value:
        return self._state_dict[path] if path in self._state_dict else self._constants[path]

    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        """Refuse: a program is run by what :meth:`module` returns.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards: bool = True) -> GraphModule:
        """Return a module that computes the program, with parameters and buffers of the same paths, which it shares.

        Args:
            check_guards: whether inputs of other sizes or types than the program's are refused.
        """
        specs = {each.arg.name: each for each in self._graph_signature.input_specs}
        lifted: dict[str, Value] = {}
        graph, values = Graph(), dict[Node, Node]()
        checks: list[tuple[str, Value]] = []
        for node in self.graph.find_nodes(op="placeholder"):
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT:
                values[node] = graph.node_copy(node)
                checks.append((node.name, self._check_of(spec, node)))
            else:
                lifted[str(spec.target)] = self._tensor(str(spec.target))
                values[node] = graph.get_attr(str(spec.target))
        graph.output(graph.graph_copy(self.graph, values))
        for node in graph.find_nodes(op="get_attr"):
            if not node.users:
                graph.erase_node(node)
        graph.set_codegen(_TreeCodeGen(self.call_spec))
        root = Module()
        for path, value in lifted.items():
            _assign_attr(value, root, path)
        made = ExportedModule(root, graph)
        for path, value in lifted.items():
            _put(value, made, path, path in self._state_dict)
        made._spec, made._checks = self.call_spec, checks
        if not check_guards:
            made._checks = [(name, InputCheck(each.dtype, [(0, float("inf"))] * len(each.sizes)) if isinstance(each, InputCheck)
                             else each) for name, each in checks]  # fmt: skip
        return made

    def _check_of(self, spec: InputSpec, node: Node) -> Value:
        if isinstance(spec.arg, ConstantArgument):
            return spec.arg.value
        value = node.meta["val"]
        names = node.meta.get("dims", (None,) * value.dim())
        sizes = [
            size if name is None else self._range_constraints[name]
            for size, name in zip(value.shape, names, strict=True)
        ]
        return InputCheck(value.dtype, sizes)

    def run_decompositions(self, decomp_table: Mapping[Value, Callable[..., Value]] | None = None) -> ExportedProgram:
        """Return a program of simpler operations.

        Args:
            decomp_table: by operation, the functions that are written in its place; by default functions that PyTorch composes
                of others, such as ``linear``, become these.

        Raises:
            NotImplementedError: the program writes in place.
        """
        from .decomposing import decomposed

        return decomposed(self, decomp_table)

    def __str__(self) -> str:
        code = self._graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {code}\n"
            f"Graph signature: {self._graph_signature}\nRange constraints: {self._range_constraints}\n"
        )

    __repr__ = __str__

    def __deepcopy__(self, memo: dict[int, Value]) -> ExportedProgram:
        made = object.__new__(type(self))
        memo[id(self)] = made
        vars(made).update({name: copy.deepcopy(each, memo) for name, each in vars(self).items()})
        return made


def named_input(graph: Graph, name: str) -> Node:
    """Make an input that keeps its name, although Python has a function of that name, too."""
    node = graph.placeholder(name)
    if all(each.name != name for each in graph.nodes):
        node.name = name
    return node


def _put(value: Value, module: Module, path: str, persistent: bool) -> None:
    """Put a tensor at a path of a module: a buffer that is not saved, if it is that."""
    _assign_attr(value, module, path)
    if not persistent:
        owner, _, name = path.rpartition(".")
        place = module.get_submodule(owner)
        place._non_persistent_buffers_set.add(name)
