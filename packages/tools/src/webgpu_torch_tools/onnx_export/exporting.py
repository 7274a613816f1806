"""Exported programs as ONNX models."""

from __future__ import annotations

import inspect
import operator
from types import SimpleNamespace
from typing import TypeAlias

import onnx
from onnx import helper
from webgpu_torch_core import Tensor

from webgpu_torch_tools.export import ExportedProgram
from webgpu_torch_tools.export.graph_signature import ConstantArgument, InputKind
from webgpu_torch_tools.fx import Node

from . import elementwise, networks, shapes
from .writing import CONVERTERS, TYPES, UnsupportedOperatorError, Writer, proto_of

del elementwise, networks, shapes
OPSET = 20
Names: TypeAlias = list[str] | None
_NUMBERS = {
    operator.add: "Add",
    operator.sub: "Sub",
    operator.mul: "Mul",
    operator.floordiv: "Div",
    operator.mod: "Mod",
}

#: functions that are no operation of PyTorch's and have a counterpart
_WRITTEN_IN_PYTHON = ("interpolate", "normalize", "local_response_norm", "softsign", "tanhshrink", "softmin")


def _arguments(node: Node) -> SimpleNamespace:
    """Return an operation's arguments by name, with their defaults."""
    schema = node.target._known_schema  # type: ignore[union-attr]
    if schema is None:
        return _bound(node)
    given = dict(zip([each.name for each in schema.arguments], node.args, strict=False))
    defaults = {each.name: each.default_value for each in schema.arguments if each.optional}
    order = [each.name for each in schema.arguments]
    found = {**defaults, **given, **node.kwargs}
    return SimpleNamespace(**{name: found[name] for name in order if name in found})


def _bound(node: Node) -> SimpleNamespace:
    """Return the arguments of a function that is no operation of PyTorch's."""
    bound = inspect.signature(node.target.overloadpacket._function).bind(*node.args, **node.kwargs)  # type: ignore[union-attr]
    bound.apply_defaults()
    return SimpleNamespace(**bound.arguments)


def _read_after(value: Node, node: Node) -> bool:
    """Return whether a value is used after a node."""
    after = node.next
    while after.op != "root":
        if after in value.users:
            return True
        after = after.next
    return False


class _Model:
    """One model in the making."""

    def __init__(self, program: ExportedProgram, input_names: Names, output_names: Names) -> None:
        self.program, self.writer = program, Writer()
        self.input_names, self.output_names = list(input_names or []), list(output_names or [])
        self.inputs: list[onnx.ValueInfoProto] = []
        self.views: dict[Node, Node] = {}

    def make(self) -> onnx.ModelProto:
        for node in self.program.graph.nodes:
            self.writer.node = node
            if node.op == "placeholder":
                self._input(node)
            elif node.op == "call_function":
                self._call(node)
        outputs = self._outputs()
        graph = helper.make_graph(self.writer.nodes, "main_graph", self.inputs, outputs, self.writer.initializers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="webgpu-torch", ir_version=9
        )
        onnx.checker.check_model(model)
        return model

    def _input(self, node: Node) -> None:
        spec = next(each for each in self.program.graph_signature.input_specs if each.arg.name == node.name)
        if spec.kind is not InputKind.USER_INPUT:
            self.writer.names[node] = str(spec.target)
            if node.users:
                value = self.program._tensor(str(spec.target))
                self.writer.initializers.append(proto_of(value, str(spec.target)))
            return
        if isinstance(spec.arg, ConstantArgument):
            self.writer.names[node] = ""
            return
        name = self.input_names.pop(0) if self.input_names else node.name
        self.writer.names[node] = name
        self.inputs.append(self._info(name, node))

    def _info(self, name: str, node: Node) -> onnx.ValueInfoProto:
        value = node.meta["val"]
        if not isinstance(value, Tensor):
            return helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [])
        named = node.meta.get("dims", (None,) * value.dim())
        sizes = [
            size if known is not None else alias or f"{name}_dim_{place}"
            for place, (size, known, alias) in enumerate(zip(value.shape, self.writer.shape(node), named, strict=True))
        ]
        if value.dtype not in TYPES:
            raise UnsupportedOperatorError(f"{name}: ONNX has no type {value.dtype}")
        return helper.make_tensor_value_info(name, TYPES[value.dtype], sizes)

    def _call(self, node: Node) -> None:
        writer, target = self.writer, node.target
        if target is operator.getitem:
            writer.names[node] = writer.names[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        if target in _NUMBERS:
            writer.names[node] = writer.op(_NUMBERS[target], *(writer.name(each) for each in node.args))
            return
        name = target.overloadpacket.__name__  # type: ignore[union-attr]
        schema = target._known_schema  # type: ignore[union-attr]
        writes = schema is not None and schema.is_mutable
        if writes and not node.users and isinstance(node.args[0], Node) and node.args[0].op == "placeholder":
            # A count of batches, for instance: what the model keeps is not part of what it computes.
            if not _read_after(node.args[0], node):
                return
        known = target.namespace == "aten" or name in _WRITTEN_IN_PYTHON  # type: ignore[union-attr]
        convert = CONVERTERS.get(name.removesuffix("_") if writes else name) if known else None
        if convert is None:
            raise UnsupportedOperatorError(
                f"{target} has no counterpart in ONNX here: write it with other operations, or export to PyTorch's format "
                "(torch.export.save)"
            )
        result = convert(writer, _arguments(node))
        if writes:
            self._written(node)
        elif schema is not None and target.is_view:  # type: ignore[union-attr]
            self.views[node] = node.args[0]  # type: ignore[assignment]
        writer.names[node] = result
        if writes:
            writer.names[node.args[0]] = result  # type: ignore[index]

    def _written(self, node: Node) -> None:
        """Refuse writes that other nodes would see under another name."""
        written = node.args[0]
        if written in self.views or any(base is written and view.users for view, base in self.views.items()):
            raise UnsupportedOperatorError(
                f"{node.target} writes into a view, or into what has views: compute a new tensor (torch.where, torch.cat)"
            )

    def _outputs(self) -> list[onnx.ValueInfoProto]:
        found, taken = [], {each.name for each in self.inputs}
        for place, each in enumerate(self.program.graph.output_node().args[0]):  # type: ignore[arg-type,union-attr]
            if not isinstance(each, Node):
                continue
            wanted = self.output_names[place] if place < len(self.output_names) else None
            name = self.writer.names[each]
            if wanted is not None or name in taken or each.op == "placeholder":
                wanted = self.writer.fresh("output") if wanted is None else wanted
                self.writer.nodes.append(
                    helper.make_node("Identity", [name], [wanted], name=self.writer.fresh("node_output"))
                )
                name = wanted
            taken.add(name)
            found.append(self._info(name, each))
        return found


def model_of(program: ExportedProgram, input_names: Names = None, output_names: Names = None) -> onnx.ModelProto:
    """Return an exported program as an ONNX model.

    Raises:
        UnsupportedOperatorError: an operation that is not written.
    """
    return _Model(program, input_names, output_names).make()
