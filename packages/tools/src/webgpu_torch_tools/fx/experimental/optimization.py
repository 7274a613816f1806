"""Networks with fewer layers that compute the same in evaluation."""

from __future__ import annotations

import copy

from webgpu_torch_nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Dropout, Linear, Module
from webgpu_torch_nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node

_FUSED = {Conv1d: BatchNorm1d, Conv2d: BatchNorm2d, Conv3d: BatchNorm3d, Linear: BatchNorm1d}

__all__ = ["fuse", "remove_dropout"]


def _module(graph_module: GraphModule, node: object) -> Module | None:
    is_call = isinstance(node, Node) and node.op == "call_module"
    return graph_module.get_submodule(str(node.target)) if is_call else None  # type: ignore[attr-defined]


def _replace(node: Node) -> None:
    node.replace_all_uses_with(node.all_input_nodes[0])
    node.graph.erase_node(node)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Return a graph module in which batch normalisations are folded into the convolutions and linear layers that feed them alone.

    Args:
        model: a module in evaluation mode that can be traced.
        inplace: change its layers, rather than those of a copy.
        no_trace: take a graph module as it is.

    Raises:
        AssertionError: a layer to fold is in training mode.
    """
    model = model if inplace else copy.deepcopy(model)
    fused = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    for node in list(fused.graph.nodes):
        norm = _module(fused, node)
        feeding = node.args[0] if node.args else None
        layer = _module(fused, feeding)
        if norm is None or layer is None or _FUSED.get(type(layer)) is not type(norm):
            continue
        assert isinstance(feeding, Node)
        if len(feeding.users) > 1 or not norm.track_running_stats:
            continue
        fold = fuse_linear_bn_eval if type(layer) is Linear else fuse_conv_bn_eval
        # One layer may be called in several places, of which others are not normalised.
        made = fold(layer, norm)  # type: ignore[operator]
        shared = sum(each.op == "call_module" and each.target == feeding.target for each in fused.graph.nodes) > 1
        target = f"{feeding.target}_{node.name}" if shared else str(feeding.target)
        fused.add_submodule(target, made)
        feeding.target = target
        _replace(node)
    fused.delete_all_unused_submodules()
    fused.graph.lint()
    fused.recompile()
    return fused


def remove_dropout(model: Module) -> GraphModule:
    """Return a graph module without the layers of a module that leave out elements by chance."""
    traced = symbolic_trace(model)
    for node in list(traced.graph.nodes):
        if isinstance(_module(traced, node), Dropout):
            _replace(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced
