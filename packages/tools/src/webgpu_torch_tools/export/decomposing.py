"""Exported programs in simpler operations."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from webgpu_torch._ops.decompositions import DECOMPOSITIONS
from webgpu_torch._ops.overloads import OpOverload
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module

from webgpu_torch_tools.fx import Graph, Node, map_arg

from .exported_program import ExportedProgram, named_input
from .graph_signature import ExportGraphSignature, OutputSpec, TensorArgument
from .tracing import Tracing, UnseenError

Value: TypeAlias = Any
Table: TypeAlias = Mapping[Value, Callable[..., Value]]


def _constant(tensor: Tensor) -> Node:
    raise UnseenError(
        f"a decomposition made a constant of shape {list(tensor.shape)}: make it with torch.full or torch.arange"
    )


def _written(node: Node, table: Table | None) -> Callable[..., Value]:
    """Return what is written in the place of a node: its operation, if nothing else."""
    target: Value = node.target
    if table is not None:
        return table.get(target, target)
    known = isinstance(target, OpOverload) and target.namespace == "aten"
    return DECOMPOSITIONS.get(target.overloadpacket.__name__, target) if known else target


def decomposed(program: ExportedProgram, table: Table | None) -> ExportedProgram:
    """Return the program with other operations written in the place of some.

    Raises:
        NotImplementedError: sizes change, or something is written in place.
    """
    if program.range_constraints:
        raise NotImplementedError("run_decompositions of programs with sizes that change: export with fixed sizes")
    graph = Graph()
    tracing = Tracing(graph, _constant, False)
    values: dict[Node, Value] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            made = named_input(graph, node.name)
            made.meta.update(node.meta)
            value = values[node] = copy.copy(node.meta["val"])
            if isinstance(value, Tensor):
                tracing.place(value, made)
                made.meta.update(node.meta)
        elif node.op == "call_function":
            schema = getattr(node.target, "_known_schema", None)
            if schema is not None and schema.is_mutable:
                raise NotImplementedError(f"run_decompositions of programs that write in place ({node.target})")
            args, kwargs = map_arg((node.args, node.kwargs), lambda each: values[each])  # type: ignore[misc]
            if node.target is operator.getitem:
                values[node] = args[0][args[1]]
                continue
            with tracing.operations:
                values[node] = _written(node, table)(*args, **kwargs)
    returned: Value = program.graph.output_node().args[0]
    nodes = [tracing.node(values[each]) if isinstance(each, Node) else each for each in returned]
    graph.output(tuple(nodes))
    outputs = [
        OutputSpec(spec.kind, TensorArgument(each.name) if isinstance(each, Node) else spec.arg, spec.target)
        for spec, each in zip(program.graph_signature.output_specs, nodes, strict=True)
    ]
    signature = ExportGraphSignature(program.graph_signature.input_specs, outputs)
    return ExportedProgram(
        Module(),
        graph,
        signature,
        program.state_dict,
        {},
        program.module_call_graph,
        program.example_inputs,
        program.constants,
    )
