"""Looking into the gradient graph and at what it saves, as ``torch.autograd.graph``."""

from webgpu_torch_core.autograd.graph import GradientEdge as GradientEdge
from webgpu_torch_core.autograd.graph import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from webgpu_torch_core.autograd.graph import get_gradient_edge as get_gradient_edge
from webgpu_torch_core.autograd.graph import increment_version as increment_version
from webgpu_torch_core.autograd.graph import register_multi_grad_hook as register_multi_grad_hook
from webgpu_torch_core.autograd.graph import save_on_cpu as save_on_cpu
from webgpu_torch_core.autograd.graph import saved_tensors_hooks as saved_tensors_hooks
from webgpu_torch_core.autograd.mutation import allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors
from webgpu_torch_core.record.node import Node as _Node

from .._C import _functions
from .function import FunctionCtx as _Context


class _NodeType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Node | _Context)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(
            subclass, (_Node, _Context, _functions.DelayedError, _functions.UndefinedGrad)
        )


class Node(metaclass=_NodeType):
    """What nodes of the gradient graph are instances of, whatever their classes, and contexts of custom functions as well."""

    def __init__(self) -> None:
        raise TypeError("nodes are made by recording: they cannot be made by a call of torch.autograd.graph.Node")
