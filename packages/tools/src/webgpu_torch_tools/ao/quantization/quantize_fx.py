"""Networks traced as graphs and quantised without marks in them: :func:`prepare_fx`, examples, :func:`convert_fx`.

Modules that have a quantised counterpart, sums, products and joined tensors compute in integers; what hands integers on (pools,
activations that cut, changes of shape) takes them as they are; everything else gets numbers.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable

import webgpu_torch as torch
import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_nn import Module
from webgpu_torch_nn import functional as F

from ...fx import Graph, GraphModule, Node, symbolic_trace
from .._calibration.graphs import Converter
from .fuser_method_mappings import _DEFAULT_OP_LIST_TO_FUSER_METHOD
from .qconfig import _add_module_to_qconfig_obs_ctr
from .qconfig_mapping import QConfigMapping
from .quantization_mappings import DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, get_default_qat_module_mappings
from .quantize import swap_module

#: modules and functions that take integers as they are
HANDING_ON = (
    nn.ReLU, nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d, nn.Flatten, nn.Identity, nn.Dropout, nn.Hardtanh, nn.ReLU6, nn.Upsample, nn.PixelShuffle, torch.relu, F.relu,
    F.relu6, F.hardtanh, F.max_pool1d, F.max_pool2d, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.interpolate, F.pixel_shuffle, torch.flatten, torch.max_pool1d, torch.max_pool2d,
    torch.mean, torch.squeeze, torch.unsqueeze, torch.transpose, torch.permute, torch.reshape, torch.clamp, operator.getitem,
    "relu", "relu_", "flatten", "mean", "squeeze", "unsqueeze", "transpose", "permute", "reshape", "view", "contiguous", "clamp", "chunk",
)  # fmt: skip
SUMS: dict[Answer, str] = {
    operator.add: "add", torch.add: "add", operator.iadd: "add", "add": "add", "add_": "add", operator.mul: "mul", torch.mul: "mul",
    operator.imul: "mul", "mul": "mul", "mul_": "mul", torch.cat: "cat", torch.concat: "cat", torch.matmul: "matmul", operator.matmul: "matmul",
}  # fmt: skip
_RELUS = (F.relu, torch.relu, "relu", "relu_")

__all__ = ["convert_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]


def _module(model: GraphModule, node: object) -> Answer:
    return model.get_submodule(str(node.target)) if isinstance(node, Node) and node.op == "call_module" else None


def _kind(model: GraphModule, node: Node) -> Answer:
    """Return what a node is known by: its module's class, its function, or the name of its method."""
    return type(_module(model, node)) if node.op == "call_module" else node.target


def _follower(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _fused(model: GraphModule, is_qat: bool) -> None:
    """Make one of modules that follow each other, the longest rows first."""
    for node in list(model.graph.nodes):
        if node.op != "call_module" or node not in set(model.graph.nodes):
            continue
        row = [node]
        while len(row) < 3 and (after := _follower(row[-1])) is not None:
            row.append(after)
        for count in range(len(row), 1, -1):
            modules: list[Answer] = [
                _module(model, each) or (nn.ReLU() if each.target in _RELUS else None) for each in row[:count]
            ]
            method = _DEFAULT_OP_LIST_TO_FUSER_METHOD.get(tuple(type(each) for each in modules))
            if method is None or any(each is None for each in modules):
                continue
            for each in modules:
                each.train(model.training)
            model.add_submodule(str(node.target), method(is_qat, *modules))
            for each in reversed(row[1:count]):
                each.replace_all_uses_with(each.all_input_nodes[0])
                model.graph.erase_node(each)
            break
    model.delete_all_unused_submodules()
    model.recompile()


def _configured(model: GraphModule, node: Node, mapping: QConfigMapping) -> Answer:
    if node.op == "call_module":
        inner = _module(model, node)
        plain = type(inner[0]) if isinstance(inner, nn.Sequential) else type(inner)
        return mapping.of_module(str(node.target), plain)
    return mapping.object_type_qconfigs.get(node.target, mapping.global_qconfig)


def _observes(model: GraphModule, node: Node) -> bool:
    """Return whether a node is computed in integers."""
    kind = _kind(model, node)
    return node.op.startswith("call_") and (
        kind in DEFAULT_STATIC_QUANT_MODULE_MAPPINGS or kind in HANDING_ON or kind in SUMS
    )


def _observed(model: GraphModule, mapping: QConfigMapping) -> None:
    """Put observers behind what is computed in integers, and before it where none is yet."""
    count, seen = 0, {}

    def watch(node: Node, qconfig: Answer, known: Answer = None) -> None:
        nonlocal count
        name = f"activation_post_process_{count}"
        count += 1
        observer = _add_module_to_qconfig_obs_ctr(qconfig, model).activation() if known is None else known
        model.add_submodule(name, observer)
        with model.graph.inserting_after(node):
            after = model.graph.call_module(name, (node,))
        for each in [each for each in node.users if each is not after]:
            each.replace_input_with(node, after)
        seen[node] = seen[after] = after

    for node in list(model.graph.nodes):
        qconfig = _configured(model, node, mapping) if node.op.startswith("call_") else None
        if qconfig is None or not _observes(model, node):
            continue
        node.meta["in_integers"] = True
        inner = _module(model, node)
        for each in (inner, *(inner if isinstance(inner, nn.Sequential) else ())) if inner is not None else ():
            each.qconfig = qconfig
        if not _is_table(inner):
            for each in node.all_input_nodes:
                if each not in seen and each.op != "get_attr":
                    watch(each, qconfig)
        after = _follower(node)
        joined = SUMS.get(node.target) in ("add", "mul") if node.op != "call_module" else False
        if joined and after is not None and (after.target in _RELUS or isinstance(_module(model, after), nn.ReLU)):
            # A sum and its ReLU are one operation.
            seen[node] = node
            continue
        watch(node, qconfig, _shared(model, node, seen))


def _shared(model: GraphModule, node: Node, seen: dict[Node, Node]) -> Answer:
    """Return the observer that a node's results have with its arguments: what hands integers on, or joins them, keeps their scale."""
    joined = SUMS.get(node.target) == "cat" if node.op != "call_module" else False
    given = [seen[each] for each in node.all_input_nodes if each in seen]
    if not given or not (joined or _kind(model, node) in HANDING_ON):
        return None
    first = _module(model, given[0])
    for each in given[1:] if joined else ():
        model.add_submodule(str(each.target), first)
    return first


def _is_table(inner: object) -> bool:
    return isinstance(inner, nn.Embedding)


def _prepared(
    model: Module, qconfig_mapping: Answer, is_qat: bool, prepare_custom_config: Answer, backend_config: Answer
) -> GraphModule:
    for name, each in (("prepare_custom_config", prepare_custom_config), ("backend_config", backend_config)):
        if each is not None:
            raise NotImplementedError(
                f"{name} is not supported: leave it out, and set configurations by a QConfigMapping"
            )
    mapping = QConfigMapping.from_dict(qconfig_mapping) if isinstance(qconfig_mapping, dict) else qconfig_mapping
    traced = symbolic_trace(copy.deepcopy(model))
    traced.train(model.training)
    _fused(traced, is_qat)
    if is_qat:
        stand_ins = get_default_qat_module_mappings()
        for node in list(traced.graph.nodes):
            inner = _module(traced, node)
            if inner is not None:
                inner.qconfig = _configured(traced, node, mapping)
                traced.add_submodule(str(node.target), swap_module(inner, stand_ins))
    _observed(traced, mapping)
    traced.graph.lint()
    traced.recompile()
    return traced


def fuse_fx(model: Module, fuse_custom_config: Answer = None, backend_config: Answer = None) -> GraphModule:
    """Return a graph module in which convolutions, linear layers, normalisations and ReLUs that follow each other are one.

    Args:
        model: a network in evaluation mode that can be traced.

    Raises:
        NotImplementedError: a configuration of one's own.
    """
    if fuse_custom_config is not None or backend_config is not None:
        raise NotImplementedError("fuse_custom_config and backend_config are not supported: leave them out")
    traced = symbolic_trace(copy.deepcopy(model))
    traced.train(model.training)
    _fused(traced, False)
    return traced


def prepare_fx(
    model: Module, qconfig_mapping: Answer, example_inputs: Answer = None, prepare_custom_config: Answer = None,
    _equalization_config: Answer = None, backend_config: Answer = None,
) -> GraphModule:  # fmt: skip
    """Return a graph module that observes what is to be integers: run it on examples, then :func:`convert_fx` it.

    Args:
        model: a network in evaluation mode that can be traced.
        qconfig_mapping: configurations, such as those of :func:`get_default_qconfig_mapping`.
        example_inputs: accepted.

    Raises:
        NotImplementedError: a configuration of one's own beside these.
    """
    return _prepared(model.eval(), qconfig_mapping, False, prepare_custom_config, backend_config)


def prepare_qat_fx(
    model: Module,
    qconfig_mapping: Answer,
    example_inputs: Answer = None,
    prepare_custom_config: Answer = None,
    backend_config: Answer = None,
) -> GraphModule:
    """Return a graph module that is trained with what is to be integers rounded as they will be.

    Args:
        model: a network in training mode that can be traced.
        qconfig_mapping: configurations, such as those of :func:`get_default_qat_qconfig_mapping`.
        example_inputs: accepted.

    Raises:
        NotImplementedError: a configuration of one's own beside these.
    """
    return _prepared(model.train(), qconfig_mapping, True, prepare_custom_config, backend_config)


def convert_fx(
    graph_module: GraphModule, convert_custom_config: Answer = None, _remove_qconfig: bool = True, qconfig_mapping: Answer = None,
    backend_config: Answer = None, keep_original_weights: bool = False,
) -> GraphModule:  # fmt: skip
    """Return a graph module that computes in integers what :func:`prepare_fx` let be observed.

    Args:
        graph_module: the observed one.

    Raises:
        NotImplementedError: a configuration of one's own.
    """
    if convert_custom_config is not None or backend_config is not None:
        raise NotImplementedError("convert_custom_config and backend_config are not supported: leave them out")
    model = copy.deepcopy(graph_module)
    tables: dict[str, Answer] = {
        "modules": DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        "handing_on": HANDING_ON,
        "sums": SUMS,
        "relus": _RELUS,
    }
    made: Callable[[], GraphModule] = Converter(model, tables, swap_module, Graph()).convert
    return made()
