"""Graphs of ONNX in the making: nodes, constants, names, and what is known of the sizes and types of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import onnx
import webgpu_torch as torch
from onnx import TensorProto, helper
from webgpu_torch_core import Tensor

from webgpu_torch_tools.fx import Node

#: an argument of an operation: a node, a number, a list of them, or an option
Value: TypeAlias = Any
#: how ONNX names a type
TYPES: dict[torch.dtype, int] = {
    torch.float32: TensorProto.FLOAT, torch.float64: TensorProto.DOUBLE, torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16, torch.int8: TensorProto.INT8, torch.int16: TensorProto.INT16,
    torch.int32: TensorProto.INT32, torch.int64: TensorProto.INT64, torch.uint8: TensorProto.UINT8,
    torch.uint16: TensorProto.UINT16, torch.uint32: TensorProto.UINT32, torch.uint64: TensorProto.UINT64,
    torch.bool: TensorProto.BOOL, torch.complex64: TensorProto.COMPLEX64, torch.complex128: TensorProto.COMPLEX128,
}  # fmt: skip


class UnsupportedOperatorError(NotImplementedError):
    """An operation of the program has no counterpart in ONNX, or none that this exporter writes."""


Converter: TypeAlias = Callable[["Writer", SimpleNamespace], Value]
#: what writes an operation, by its name without an overload
CONVERTERS: dict[str, Converter] = {}


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Let a function write the operations of some names."""

    def register(function: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function

    return register


def proto_of(value: Tensor, name: str) -> TensorProto:
    """Return a tensor as ONNX keeps it: its bytes, row by row.

    Raises:
        UnsupportedOperatorError: ONNX has no type for its elements.
    """
    if value.dtype not in TYPES:
        raise UnsupportedOperatorError(f"{name}: ONNX has no type {value.dtype}")
    flat = value.detach().to("cpu").contiguous().reshape(-1)
    content = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return helper.make_tensor(name, TYPES[value.dtype], list(value.shape), content, raw=True)


class Writer:
    """One graph.

    Attributes:
        nodes: what was written, in its order.
        initializers: constants and weights.
        names: names of values by the program's nodes.
        node: the node that is being written.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.names: dict[Node, Value] = {}
        self.node: Node | None = None
        self._constants: dict[Value, str] = {}
        self._count = 0

    def fresh(self, hint: str) -> str:
        """Return a name that nothing has."""
        self._count += 1
        return f"{hint}_{self._count}"

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Value) -> Value:
        """Write a node and return the name of its result; a list where there are several."""
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=self.fresh(f"node_{kind}"), **given))
        return names[0] if outputs == 1 else names

    # Constants

    def array(self, values: Tensor) -> str:
        """Return the name of a constant."""
        made = proto_of(values, "")
        key = made.SerializeToString()
        if key not in self._constants:
            made.name = self._constants[key] = self.fresh("constant")
            self.initializers.append(made)
        return self._constants[key]

    def ints(self, values: Sequence[int]) -> str:
        """Return the name of a constant list of numbers."""
        return self.array(torch.tensor(list(values), dtype=torch.int64))

    def number(self, value: complex, dtype: torch.dtype) -> str:
        """Return the name of a constant without dimensions."""
        return self.array(torch.tensor(value, dtype=dtype))

    # What is known of values

    def meta(self, value: Value) -> Tensor:
        """Return the shape and type of an argument."""
        return value.meta["val"] if isinstance(value, Node) else torch.tensor(value, device="meta")

    def dtype(self, value: Value) -> torch.dtype:
        """Return the type of an argument."""
        return self.meta(value).dtype

    def rank(self, value: Value) -> int:
        """Return how many dimensions an argument has."""
        return self.meta(value).dim()

    def shape(self, value: Value) -> list[int | None]:
        """Return the sizes of an argument; None for those that change."""
        sizes = list(self.meta(value).shape)
        changing = value.meta.get("changing", ()) if isinstance(value, Node) else ()
        return [None if each else size for size, each in zip(sizes, changing or [False] * len(sizes), strict=True)]

    def fixed(self, value: Value, dim: int) -> int:
        """Return the size of a dimension.

        Raises:
            UnsupportedOperatorError: it changes.
        """
        size = self.shape(value)[dim]
        if size is None:
            raise UnsupportedOperatorError(f"{self.describe()} over a dimension whose size changes")
        return size

    def describe(self) -> str:
        """Return what is being written."""
        return str(self.node.target) if self.node is not None else "the graph"

    def dim(self, value: Value, dim: int) -> int:
        """Return a dimension counted from the first."""
        rank = self.rank(value)
        return dim % rank if rank else 0

    # Values

    def name(self, value: Value, dtype: torch.dtype | None = None) -> str:
        """Return the name of an argument, converted to a type if one is given; empty for None."""
        if value is None:
            return ""
        if not isinstance(value, Node):
            return self.number(value, self._type_of(value) if dtype is None else dtype)
        name = self.names[value]
        if not isinstance(value.meta["val"], Tensor):
            # A size.
            return name if dtype in (None, torch.int64) else self.cast(name, dtype)
        return name if dtype is None or self.dtype(value) is dtype else self.cast(name, dtype)

    def _type_of(self, value: Value) -> torch.dtype:
        return torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float32

    def cast(self, name: str, dtype: torch.dtype) -> str:
        """Return a value converted to a type.

        Raises:
            UnsupportedOperatorError: ONNX has no such type.
        """
        if dtype not in TYPES:
            raise UnsupportedOperatorError(f"{self.describe()}: ONNX has no type {dtype}")
        return self.op("Cast", name, to=TYPES[dtype])

    def result_type(self) -> torch.dtype:
        """Return the type of the result of what is being written."""
        assert self.node is not None
        found = self.node.meta["val"]
        return (found[0] if isinstance(found, list) else found).dtype

    def common(self, *values: Value) -> list[str]:
        """Return operands converted to the type in which PyTorch computes with them."""
        metas = [each.meta["val"] if isinstance(each, Node) else each for each in values]
        kind = metas[0]
        for each in metas[1:]:
            kind = _joined(kind, each)
        dtype = kind.dtype if isinstance(kind, Tensor) else self._type_of(kind)
        return [self.name(each, dtype) for each in values]

    def sizes(self, values: Sequence[Value]) -> str:
        """Return the name of a list of sizes, some of which may be values of the graph."""
        if not any(isinstance(each, Node) for each in values):
            return self.ints([int(each) for each in values])
        parts = [
            self.op("Unsqueeze", self.names[each], self.ints([0])) if isinstance(each, Node) else self.ints([int(each)])
            for each in values
        ]
        return self.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def size(self, value: Value, dim: int) -> Value:
        """Return the name of a dimension's size, as a number."""
        shape = self.op("Shape", self.name(value), start=dim, end=dim + 1)
        return self.op("Squeeze", shape, self.ints([0]))

    def shape_of(self, value: Value) -> str:
        """Return the name of an argument's shape."""
        sizes = self.shape(value)
        return self.op("Shape", self.name(value)) if None in sizes else self.ints([int(each or 0) for each in sizes])

    def reshaped(self, name: str, sizes: Sequence[int]) -> str:
        """Return a value in another shape; 0 keeps a size, -1 is what is left."""
        return self.op("Reshape", name, self.ints(sizes))


def _joined(first: Value, second: Value) -> Value:
    """Return what stands for two operands in the next step of finding their common type."""
    dtype = torch.result_type(first, second)
    rank = max(each.dim() if isinstance(each, Tensor) else -1 for each in (first, second))
    return torch.empty((1,) * max(rank, 0), dtype=dtype, device="meta")
