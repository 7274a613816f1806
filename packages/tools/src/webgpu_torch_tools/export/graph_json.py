"""Graphs, signatures and structures of exported programs as PyTorch's archives write them (``torch/_export/serde/schema.py``)."""

from __future__ import annotations

import inspect
import json
import math
import operator
import re
from collections import OrderedDict
from typing import Any, TypeAlias

import webgpu_torch as torch
from webgpu_torch._ops.implementations import operation
from webgpu_torch.utils._pytree import LeafSpec, TreeSpec
from webgpu_torch_core import Tensor

from webgpu_torch_tools.fx import Graph, Node

from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, named_input
from .graph_signature import (
    Argument,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

Value: TypeAlias = Any
Json: TypeAlias = dict[str, Any]
DTYPES: dict[int, torch.dtype] = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 10: torch.complex64, 11: torch.complex128, 12: torch.bool, 13: torch.bfloat16, 28: torch.uint16,
    29: torch.float8_e4m3fn, 30: torch.float8_e5m2, 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_FORMATS = {
    1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format,
}  # fmt: skip
_STRIDED = 7
_OPERATORS = {
    f"_operator.{each.__name__}": each
    for each in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
}
_CONTAINERS = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "builtins.dict": dict,
    "collections.OrderedDict": OrderedDict,
}
_CONTAINER_NAMES = {kind: name for name, kind in _CONTAINERS.items()}
_SYMBOL = re.compile(r"Symbol\('(\w+)'")


def _size(size: int, name: str | None = None) -> Json:
    if name is None:
        return {"as_int": size}
    return {"as_expr": {"expr_str": f"Symbol({name!r}, positive=True, integer=True)", "hint": {"as_int": size}}}


def tensor_json(tensor: Tensor, requires_grad: bool = False, names: tuple[str | None, ...] = ()) -> Json:
    """Return what an archive says of a tensor beside its bytes."""
    names = names or (None,) * tensor.dim()
    return {
        "dtype": _NUMBERS[tensor.dtype], "sizes": [_size(*each) for each in zip(tensor.shape, names, strict=True)],
        "requires_grad": requires_grad, "device": {"type": "cpu", "index": None},
        "strides": [_size(each) for each in tensor.stride()], "storage_offset": {"as_int": 0}, "layout": _STRIDED,
    }  # fmt: skip


# Structures


def _spec_json(spec: TreeSpec) -> Json:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    if spec.type not in _CONTAINER_NAMES:
        raise NotImplementedError(f"archives have no form for a {spec.type.__name__} among inputs or outputs")
    return {
        "type": _CONTAINER_NAMES[spec.type], "context": json.dumps(None if spec.context is None else list(spec.context)),
        "children_spec": [_spec_json(each) for each in spec.children_specs],
    }  # fmt: skip


def _spec_of(found: Json) -> TreeSpec:
    if found["type"] is None:
        return LeafSpec()
    if found["type"] not in _CONTAINERS:
        raise NotImplementedError(f"an archive with a {found['type']} among its inputs or outputs")
    return TreeSpec(
        _CONTAINERS[found["type"]], json.loads(found["context"]), [_spec_of(each) for each in found["children_spec"]]
    )


# Writing


def _argument(value: Value) -> Json:
    if isinstance(value, Node):
        if isinstance(value.meta["val"], Tensor):
            return {"as_tensor": {"name": value.name}}
        return {"as_sym_int": {"as_name": value.name}}
    if isinstance(value, list | tuple):
        return _list(list(value))
    for kind, form in ((bool, "as_bool"), (int, "as_int"), (float, "as_float"), (str, "as_string")):
        if isinstance(value, kind):
            return {form: value}
    if value is None:
        return {"as_none": True}
    if isinstance(value, torch.dtype):
        return {"as_scalar_type": _NUMBERS[value]}
    if isinstance(value, torch.device):
        return {"as_device": {"type": value.type, "index": value.index}}
    if isinstance(value, torch.layout):
        return {"as_layout": _STRIDED}
    if isinstance(value, torch.memory_format):
        return {"as_memory_format": next(number for number, each in _FORMATS.items() if each is value)}
    if isinstance(value, complex):
        return {"as_complex": {"real": value.real, "imag": value.imag}}
    raise NotImplementedError(f"archives have no form for the argument {value!r}")


def _list(values: list[Value]) -> Json:
    tensors = [isinstance(each, Node) and isinstance(each.meta["val"], Tensor) for each in values]
    if any(tensors) and all(tensors):
        return {"as_tensors": [{"name": each.name} for each in values]}
    if any(tensors):
        found = [{"as_none": True} if each is None else {"as_tensor": {"name": each.name}} for each in values]
        return {"as_optional_tensors": found}
    if any(isinstance(each, Node) for each in values):
        return {
            "as_sym_ints": [{"as_name": each.name} if isinstance(each, Node) else {"as_int": each} for each in values]
        }
    for kind, form in ((bool, "as_bools"), (int, "as_ints"), (float, "as_floats"), (str, "as_strings")):
        if all(isinstance(each, kind) for each in values):
            return {"as_ints" if not values else form: values}
    return {"as_floats": [float(each) for each in values]}


def _target(node: Node) -> str:
    target: Value = node.target
    if getattr(target, "namespace", None) == "aten":
        return f"torch.ops.{target}"
    name = f"_operator.{getattr(target, '__name__', '')}"
    if name in _OPERATORS:
        return name
    raise NotImplementedError(f"{target} is no operation of PyTorch's: archives have no form for it")


def _inputs(node: Node) -> list[Json]:
    target: Value = node.target
    schema = getattr(target, "_known_schema", None)
    names = list(inspect.signature(target).parameters) if schema is None else [each.name for each in schema.arguments]
    given = [(name, each, 1) for name, each in zip(names, node.args, strict=False)]
    given += [(name, each, 2) for name, each in node.kwargs.items()]
    return [{"name": name, "arg": _argument(each), "kind": kind} for name, each, kind in given]


def _outputs(node: Node, values: Json) -> list[Json]:
    """Return the forms of an operation's results, and note those that nobody uses."""
    found = node.meta["val"]
    if not isinstance(found, list):
        return [_argument(node)]
    users = {each.args[1]: each.name for each in node.users if each.target is operator.getitem}
    names: list[str] = [users.get(place, f"{node.name}_unused_{place}") for place in range(len(found))]  # type: ignore[call-overload]
    for name, each in zip(names, found, strict=True):
        values.setdefault(name, tensor_json(each))
    schema = node.target._known_schema  # type: ignore[union-attr]
    if len(schema.returns) == 1:
        return [{"as_tensors": [{"name": each} for each in names]}]
    return [{"as_tensor": {"name": each}} for each in names]


def _argument_spec(arg: Argument) -> Json:
    if isinstance(arg, TensorArgument):
        return {"as_tensor": {"name": arg.name}}
    return {"as_sym_int": {"as_name": arg.name}} if isinstance(arg, SymIntArgument) else _argument(arg.value)


_LIFTED = {
    InputKind.PARAMETER: ("parameter", "parameter_name"), InputKind.BUFFER: ("buffer", "buffer_name"),
    InputKind.CONSTANT_TENSOR: ("tensor_constant", "tensor_constant_name"),
}  # fmt: skip


def _input_spec(spec: InputSpec) -> Json:
    if spec.kind in _LIFTED:
        form, name = _LIFTED[spec.kind]
        found: Json = {"arg": {"name": spec.arg.name}, name: spec.target}
        return {form: {**found, "persistent": spec.persistent} if spec.kind is InputKind.BUFFER else found}
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _argument(spec.arg.value)}}
    return {"user_input": {"arg": _argument_spec(spec.arg)}}


def graph_json(program: ExportedProgram) -> Json:
    """Return what an archive says of a program.

    Raises:
        NotImplementedError: an argument, or a structure of inputs, that archives have no form for.
    """
    graph, signature = program.graph, program.graph_signature
    values: Json = {}
    sizes: Json = {}
    nodes = []
    for node in graph.nodes:
        found = node.meta.get("val")
        if isinstance(found, Tensor):
            names = node.meta.get("dims", ())
            values[node.name] = tensor_json(found, node.op == "placeholder" and _trained(program, node.name), names)
        elif isinstance(found, int) and node.op == "call_function":
            sizes[node.name] = _size(found, _name_of_size(node))
        if node.op == "call_function" and node.target is not operator.getitem:
            nodes.append({
                "target": _target(node), "inputs": _inputs(node), "outputs": _outputs(node, values), "metadata": {},
                "is_hop_single_tensor_return": None, "name": node.name,
            })  # fmt: skip
    returned: Value = graph.output_node().args[0]
    spec = program.call_spec
    whole = {
        "inputs": [], "outputs": [], "in_spec": json.dumps([1, _spec_json(spec.in_spec)]),
        "out_spec": json.dumps([1, _spec_json(spec.out_spec)]), "forward_arg_names": None,
    }  # fmt: skip
    return {
        "graph_module": {
            "graph": {
                "inputs": [_argument_spec(each.arg) for each in signature.input_specs],
                "outputs": [_argument(each) for each in returned],
                "nodes": nodes, "tensor_values": values, "sym_int_values": sizes, "sym_bool_values": {},
                "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {},
            },
            "signature": {
                "input_specs": [_input_spec(each) for each in signature.input_specs],
                "output_specs": [{"user_output": {"arg": _argument_spec(each.arg)}} for each in signature.output_specs],
            },
            "module_call_graph": [{"fqn": "", "signature": whole}], "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {
            name: {"min_val": least, "max_val": None if most == math.inf else most}
            for name, (least, most) in program.range_constraints.items()
        },
        "schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"], "torch_version": "2.13.0", "guards_code": [],
    }  # fmt: skip


def _trained(program: ExportedProgram, name: str) -> bool:
    path = program.graph_signature.inputs_to_parameters.get(name)
    return path is not None and program.state_dict[path].requires_grad


def _name_of_size(node: Node) -> str | None:
    """Return the name of the dimension that a node reads the size of."""
    source = node.args[0] if len(node.args) == 2 else None
    names = source.meta.get("dims") if isinstance(source, Node) else None
    return names[node.args[1]] if names and isinstance(node.args[1], int) else None


# Reading


class _Reader:
    """One graph being read."""

    def __init__(self, found: Json, graph: Graph) -> None:
        self.found, self.graph = found, graph
        self.nodes: dict[str, Node] = {}

    def note(self, name: str, node: Node) -> None:
        self.nodes[name] = node
        meta = self.found["tensor_values"].get(name)
        if meta is None:
            node.meta["val"] = self._number(self.found["sym_int_values"].get(name, {"as_int": 0}))
            return
        sizes, strides = ([self._number(each) for each in meta[part]] for part in ("sizes", "strides"))
        node.meta["val"] = torch.empty_strided(sizes, strides, dtype=DTYPES[meta["dtype"]], device="meta")
        node.meta["changing"] = tuple("as_expr" in each for each in meta["sizes"])
        named = [_SYMBOL.match(each["as_expr"]["expr_str"]) if "as_expr" in each else None for each in meta["sizes"]]
        node.meta["dims"] = tuple(None if each is None else each[1] for each in named)

    def _number(self, size: Json) -> int:
        if "as_int" in size:
            return size["as_int"]
        return (size["as_expr"].get("hint") or {"as_int": 2})["as_int"]

    def value(self, found: Json) -> Value:
        """Return an argument.

        Raises:
            NotImplementedError: its form is not known here.
        """
        ((form, value),) = found.items()
        if form in ("as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string", "as_strings"):
            return value
        if form == "as_none":
            return None
        if form in ("as_tensor", "as_name"):
            return self.nodes[value["name"] if form == "as_tensor" else value]
        if form == "as_tensors":
            return [self.nodes[each["name"]] for each in value]
        if form in ("as_sym_int", "as_sym_float"):
            return self.value(value)
        if form in ("as_sym_ints", "as_optional_tensors"):
            return [self.value(each) for each in value]
        if form == "as_scalar_type":
            return DTYPES[value]
        if form == "as_device":
            return torch.device(value["type"])
        if form == "as_layout" and value == _STRIDED:
            return torch.strided
        if form == "as_memory_format":
            return _FORMATS[value]
        if form == "as_complex":
            return complex(value["real"], value["imag"])
        raise NotImplementedError(f"archives' form {form} of an argument is not read")

    def node(self, found: Json) -> None:
        """Make a node.

        Raises:
            NotImplementedError: an operation that is not here.
        """
        target = _operation(found["target"])
        given = [(each["name"], self.value(each["arg"]), each.get("kind") or 1) for each in found["inputs"]]
        args = tuple(value for _, value, kind in given if kind == 1)
        kwargs = {name: value for name, value, kind in given if kind == 2}
        node = self.graph.call_function(target, args, kwargs, name=found.get("name") or None)
        outputs = found["outputs"]
        if len(outputs) == 1 and "as_tensors" not in outputs[0]:
            name = outputs[0].get("as_tensor", {}).get("name") or outputs[0].get("as_sym_int", {}).get("as_name")
            self.note(name, node)
            return
        names = (
            [each["name"] for each in outputs[0]["as_tensors"]]
            if len(outputs) == 1
            else [each["as_tensor"]["name"] for each in outputs if "as_tensor" in each]
        )
        parts = []
        for place, name in enumerate(names):
            part = self.graph.call_function(operator.getitem, (node, place), name=name)
            self.note(name, part)
            parts.append(part)
        node.meta["val"] = [each.meta["val"] for each in parts]


def _operation(target: str) -> Value:
    if target in _OPERATORS:
        return _OPERATORS[target]
    *_, space, name, overload = target.split(".")
    packet: Value = operation(name) if space == "aten" else None
    if packet is None:
        raise NotImplementedError(f"{target} is not part of webgpu-torch: programs with it cannot be loaded")
    return getattr(packet, overload)


def _read_argument(found: Json) -> Argument:
    ((form, value),) = found.items()
    if form == "as_tensor":
        return TensorArgument(value["name"])
    if form == "as_sym_int" and "as_name" in value:
        return SymIntArgument(value["as_name"])
    return ConstantArgument("", None if form == "as_none" else value.get("as_int") if form == "as_sym_int" else value)


def _read_input(found: Json) -> InputSpec:
    ((form, value),) = found.items()
    for kind, (name, target) in _LIFTED.items():
        if name == form:
            return InputSpec(kind, TensorArgument(value["arg"]["name"]), value[target], value.get("persistent"))
    if form == "constant_input":
        ((_, constant),) = value["value"].items()
        return InputSpec(
            InputKind.USER_INPUT,
            ConstantArgument(value["name"], None if "as_none" in value["value"] else constant),
            None,
        )
    if form != "user_input":
        raise NotImplementedError(f"inputs of the kind {form} are not read")
    return InputSpec(InputKind.USER_INPUT, _read_argument(value["arg"]), None)


def _read_output(found: Json) -> OutputSpec:
    ((form, value),) = found.items()
    if form == "buffer_mutation":
        return OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(value["arg"]["name"]), value["buffer_name"])
    if form != "user_output":
        raise NotImplementedError(f"outputs of the kind {form} are not read")
    return OutputSpec(OutputKind.USER_OUTPUT, _read_argument(value["arg"]), None)


def program_parts(
    found: Json, graph: Graph
) -> tuple[ExportGraphSignature, list[ModuleCallEntry], dict[str, tuple[int, float]]]:
    """Fill a graph with what an archive says, and return its signature, its structures, and the bounds of sizes.

    Raises:
        NotImplementedError: the program has operations, or values, that are not here.
    """
    module = found["graph_module"]
    reader = _Reader(module["graph"], graph)
    inputs = [_read_input(each) for each in module["signature"]["input_specs"]]
    for each in inputs:
        node = named_input(graph, each.arg.name)
        if isinstance(each.arg, ConstantArgument):
            node.meta["val"], reader.nodes[each.arg.name] = each.arg.value, node
        else:
            reader.note(each.arg.name, node)
    for each in module["graph"]["nodes"]:
        if not each["target"].startswith(("torch.ops.aten._assert", "torch.ops.aten.sym_constrain")):
            reader.node(each)
    outputs = [_read_output(each) for each in module["signature"]["output_specs"]]
    graph.output(tuple(reader.value(each) for each in module["graph"]["outputs"]))
    whole = module["module_call_graph"][0]["signature"]
    taken, returned = (_spec_of(json.loads(whole[name])[1]) for name in ("in_spec", "out_spec"))
    given = [each.arg for each in inputs if each.kind is InputKind.USER_INPUT]
    signature = ModuleCallSignature(given, [each.arg for each in outputs], taken, returned)
    ranges = {
        name: (bounds["min_val"] or 0, math.inf if bounds["max_val"] is None else bounds["max_val"])
        for name, bounds in found["range_constraints"].items()
    }
    return ExportGraphSignature(inputs, outputs), [ModuleCallEntry("", signature)], ranges
