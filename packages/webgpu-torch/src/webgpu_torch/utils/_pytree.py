"""Nested containers as flat lists of leaves and back, as ``torch.utils._pytree``."""

from __future__ import annotations

from typing import Any, TypeAlias

from webgpu_torch_core.tensors.pytree import SUPPORTED_NODES as SUPPORTED_NODES
from webgpu_torch_core.tensors.pytree import GetAttrKey as GetAttrKey
from webgpu_torch_core.tensors.pytree import KeyEntry as KeyEntry
from webgpu_torch_core.tensors.pytree import LeafSpec as LeafSpec
from webgpu_torch_core.tensors.pytree import MappingKey as MappingKey
from webgpu_torch_core.tensors.pytree import NodeDef as NodeDef
from webgpu_torch_core.tensors.pytree import SequenceKey as SequenceKey
from webgpu_torch_core.tensors.pytree import TreeSpec as TreeSpec
from webgpu_torch_core.tensors.pytree import _dict_flatten as _dict_flatten
from webgpu_torch_core.tensors.pytree import _dict_flatten_with_keys as _dict_flatten_with_keys
from webgpu_torch_core.tensors.pytree import _dict_unflatten as _dict_unflatten
from webgpu_torch_core.tensors.pytree import _node_type as _get_node_type
from webgpu_torch_core.tensors.pytree import register_pytree_node as _register_pytree_node
from webgpu_torch_core.tensors.pytree import register_pytree_node as register_pytree_node
from webgpu_torch_core.tensors.pytree import tree_all as tree_all
from webgpu_torch_core.tensors.pytree import tree_any as tree_any
from webgpu_torch_core.tensors.pytree import tree_flatten as tree_flatten
from webgpu_torch_core.tensors.pytree import tree_iter as tree_iter
from webgpu_torch_core.tensors.pytree import tree_leaves as tree_leaves
from webgpu_torch_core.tensors.pytree import tree_map as tree_map
from webgpu_torch_core.tensors.pytree import tree_map_ as tree_map_
from webgpu_torch_core.tensors.pytree import tree_map_only as tree_map_only
from webgpu_torch_core.tensors.pytree import tree_structure as tree_structure
from webgpu_torch_core.tensors.pytree import tree_unflatten as tree_unflatten

#: what a container keeps besides its children
Context: TypeAlias = Any

# Libraries reach for these, too, though they are not public.
__all__ = ["_dict_flatten", "_dict_flatten_with_keys", "_dict_unflatten", "_get_node_type", "_register_pytree_node"]
