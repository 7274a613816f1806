"""The shapes and types of a graph's values, noted at its nodes."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from webgpu_torch_core import Size, Tensor, channels_last, channels_last_3d, contiguous_format, dtype, memory_format

from ..immutable_collections import map_aggregate
from ..interpreter import Interpreter
from ..node import Node

Value: TypeAlias = Any


class TensorMetadata(NamedTuple):
    """What is noted of a tensor."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = (contiguous_format, channels_last, channels_last_3d) if include_contiguity else ()
    fitting = (each for each in formats if _fits(result, each))
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), next(fitting, None), False, {}
    )


def _fits(tensor: Tensor, layout: memory_format) -> bool:
    dimensions = {channels_last: 4, channels_last_3d: 5}.get(layout, tensor.dim())
    return tensor.dim() == dimensions and tensor.is_contiguous(memory_format=layout)


class ShapeProp(Interpreter):
    """Runs a module's graph and notes at each node, in ``meta``, the shape and type of its value: ``tensor_meta`` and ``type``."""

    def run_node(self, n: Node) -> Value:
        """Return a node's value, noted."""
        result = super().run_node(n)
        found = False

        def noted(each: Value) -> Value:
            nonlocal found
            if isinstance(each, Tensor):
                found = True
                return _extract_tensor_metadata(each)
            return each

        meta = map_aggregate(result, noted)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Value) -> Value:
        """Run the graph with its inputs and return what it returns."""
        return self.run(*args)
