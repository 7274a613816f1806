"""Calls of the public API as nodes of a graph: what a module does with its arguments, in terms of PyTorch's operations.

A call becomes the operation that PyTorch's function of the name calls (``aten.linear.default``), in-place operations included; a
function that PyTorch writes in Python becomes the calls inside of it. Nothing is simplified: a graph may be run forward, backward
and in training.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import webgpu_torch as torch
from webgpu_torch._ops.decompositions import PROPERTIES, index_parts
from webgpu_torch._ops.dispatching import READS, meaning
from webgpu_torch._ops.implementations import operation, own_operation
from webgpu_torch.overrides import TorchFunctionMode
from webgpu_torch.utils._python_dispatch import TorchDispatchMode
from webgpu_torch.utils._pytree import tree_leaves, tree_map
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import PATHS
from webgpu_torch_core.dispatch.torch_dispatch import DisableTorchDispatch
from webgpu_torch_core.tensors.births import tensors_made

from webgpu_torch_tools.fx import Graph, Node

from .sizes import SymbolicInt, other_of

Value: TypeAlias = Any

#: calls that give Python a value
_VALUES = frozenset((
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "is_nonzero", "equal",
    "allclose", "__dlpack__",
))  # fmt: skip
#: calls whose result has a size that depends on values
_SIZED_BY_VALUES = frozenset((
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "histogram_bin_edges", "unique_dim",
))  # fmt: skip
#: calls that make tensors of what Python has: constants of the graph
_OF_DATA = frozenset(("tensor", "as_tensor", "from_numpy", "asarray", "scalar_tensor", "sparse_coo_tensor"))
_CONVERSIONS = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16, "int": torch.int32,
    "long": torch.int64, "short": torch.int16, "char": torch.int8, "byte": torch.uint8, "bool": torch.bool,
}  # fmt: skip
#: calls of others, as PyTorch writes them
_WRITTEN_OUT: dict[str, Callable[..., Value]] = {
    **{name: lambda input, _dtype=dtype: input.to(_dtype) for name, dtype in _CONVERSIONS.items()},
    "cpu": lambda input: input.to("cpu"),
    "__rmatmul__": lambda input, other: other.matmul(input),
    "__rdiv__": lambda input, other: input.reciprocal() * other,
    "__invert__": lambda input: input.bitwise_not(),
    "__iter__": lambda input: iter(input.unbind(0)),
    "__len__": lambda input: int(input.shape[0]),
    "norm": lambda *args, **kwargs: _norm(*args, **kwargs),
}


def _norm(
    input: Tensor, p: Value = "fro", dim: Value = None, keepdim: bool = False, dtype: Value = None, out: None = None
) -> Tensor:
    """Return a norm of vectors, or the nuclear one of matrices."""
    if p == "nuc":
        return torch.linalg.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return torch.linalg.vector_norm(input, 2 if p in (None, "fro") else p, dim, keepdim, dtype=dtype)


class UnseenError(RuntimeError):
    """A tensor was computed by something that is no call of the public API."""


class DataDependentError(RuntimeError):
    """A program asks for values of tensors that are known only when the graph runs."""


class Operations(TorchDispatchMode):
    """Notes operations that are called by name."""

    def __init__(self, tracing: Tracing) -> None:
        super().__init__()
        self.tracing = tracing

    def __torch_dispatch__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Compute an operation and note it."""
        return self.tracing.computed(func, args, kwargs or {})


class Tracing(TorchFunctionMode):
    """A region whose calls become nodes.

    Args:
        graph: where they are put.
        constant: returns the node of a tensor that no node made.
        changing: whether some sizes are those of this call only.

    Attributes:
        constants: the tensors that no node made.
    """

    def __init__(self, graph: Graph, constant: Callable[[Tensor], Node], changing: bool) -> None:
        super().__init__()
        self.graph, self._constant, self.changing = graph, constant, changing
        self.operations = Operations(self)
        # Tensors are kept: what took the place of one that is gone would be taken for it.
        self._nodes: dict[int, tuple[Tensor, Node]] = {}
        self._others: dict[int, Tensor] = {}
        # What there was before, and what is made of numbers, is a constant: everything else has to come from a node.
        self._constants: dict[int, Tensor] = {}
        self._made: dict[int, Tensor] | None = None
        self._regions: list[contextlib.AbstractContextManager[None]] = []

    def __enter__(self) -> Value:
        if self._made is None:
            self._made = {}
        # Calls that are written out enter again.
        region = contextlib.nullcontext() if self._regions else tensors_made(self._made)
        region.__enter__()
        self._regions.append(region)
        self.operations.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.operations.__exit__(*error)
        self._regions.pop().__exit__(None, None, None)

    # Tensors and nodes

    def place(self, tensor: Tensor, node: Node, other: Tensor | None = None) -> None:
        """Say which node a tensor is the value of, and what it is for the other sizes."""
        self._nodes[id(tensor)] = tensor, node
        if self.changing:
            self._others[id(tensor)] = _shape_of(tensor) if other is None else other
        node.meta["val"] = _shape_of(tensor)
        if self.changing:
            with DisableTorchDispatch(), torch._C.DisableTorchFunction():
                sizes = zip(self.other(tensor).shape, tensor.shape, strict=True)
                node.meta["changing"] = tuple(size != now for size, now in sizes)

    def knows(self, value: Value) -> bool:
        """Return whether a value is a tensor that a node made."""
        return isinstance(value, Tensor) and id(value) in self._nodes

    def node(self, tensor: Tensor) -> Node:
        """Return a tensor's node: a constant's where no call made it.

        Raises:
            UnseenError: it was computed by something else.
        """
        if id(tensor) not in self._nodes:
            made_here = self._made is None or id(tensor) in self._made
            if made_here and id(tensor) not in self._constants:
                raise UnseenError(
                    f"a tensor of shape {list(tensor.shape)} was computed by something that is no call of torch's functions: it "
                    "would be a constant of the graph"
                )
            self.place(tensor, self._constant(tensor))
        return self._nodes[id(tensor)][1]

    def other(self, value: Value) -> Value:
        """Return what stands for a tensor or a number where the sizes are the other ones."""
        if isinstance(value, Tensor):
            return self._others.get(id(value), value) if self.changing else value
        return other_of(value)

    def argument(self, value: Value) -> Value:
        """Return an argument as nodes have it."""

        def leaf(each: Value) -> Value:
            return self.node(each) if isinstance(each, Tensor) else each.node if isinstance(each, SymbolicInt) else each

        return tree_map(leaf, value)

    # Calls

    def __torch_function__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Note a call and return its value."""
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("__get__", "__set__"):
            return self._property(func, args)
        path = PATHS.get(func, "")
        name = path.rpartition(".")[2]
        if name == "size":
            return self._size(*args, **kwargs)
        if name in READS or not path or path.startswith(("torch.autograd", "torch.func", "torch.jit")):
            return self._read(name, func, args, kwargs)
        known = any(map(self.knows, tree_leaves((args, kwargs))))
        if name in _VALUES:
            self._refuse_values(name, known)
            return self._plainly(func, args, kwargs)
        if name in _OF_DATA and not known:
            return self._plainly(func, args, kwargs)
        if name in ("__getitem__", "__setitem__"):
            return self._part(name, *args)
        if name in _WRITTEN_OUT:
            with self:
                return _WRITTEN_OUT[name](*args, **kwargs)
        if known and (name in _SIZED_BY_VALUES or (name == "where" and len(args) + len(kwargs) == 1)):
            self._refuse_sizes(f"{path}: the size of its result depends on values, which exports have no node for")
        return self._call(func, path, args, kwargs)

    def _read(self, name: str, func: Value, args: Value, kwargs: Value) -> Value:
        if name in ("numel", "nelement"):
            return self._numel(args[0])
        if name == "type" and len(args) + len(kwargs) > 1:
            with self:
                return args[0].to(*args[1:], **kwargs)
        return self._plainly(func, args, kwargs)

    def _plainly(self, func: Value, args: Value, kwargs: Value) -> Value:
        """Return what a call returns, and note nothing."""
        with DisableTorchDispatch():
            args, kwargs = tree_map(_plain, (args, kwargs))
            result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            self._constants[id(result)] = result
        return result

    def _refuse_values(self, name: str, known: bool) -> None:
        if known:
            raise DataDependentError(
                f"Could not guard on data-dependent expression: the program calls {name} of a tensor that depends on inputs; "
                "compute with tensors instead (torch.where), or leave this part out of what is exported"
            )

    def _refuse_sizes(self, what: str) -> None:
        raise DataDependentError(what)

    def _property(self, func: Value, args: Value) -> Value:
        name = getattr(func.__self__.fget, "__name__", "")
        if func.__name__ == "__get__":
            if name == "shape":
                return self._size(args[0])
            if name in PROPERTIES:
                with self:
                    return PROPERTIES[name](args[0])
            if name in ("real", "imag"):
                return self._call(func, f"torch.{name}", args, {})
        return self._plainly(func, args, {})

    def _size(self, tensor: Tensor, dim: int | None = None) -> Value:
        with DisableTorchDispatch():
            shape = tuple(tensor.shape)
            other = tuple(self.other(tensor).shape)
        if shape == other:
            return torch.Size(shape) if dim is None else shape[dim]
        if dim is not None:
            return self._symbol(tensor, dim % len(shape), shape, other)
        return torch.Size([self._symbol(tensor, place, shape, other) for place in range(len(shape))])

    def _symbol(self, tensor: Tensor, place: int, shape: tuple[int, ...], other: tuple[int, ...]) -> int:
        if shape[place] == other[place]:
            return shape[place]
        packet: Value = operation("sym_size")
        node = self.graph.call_function(packet.int, (self.node(tensor), place), name="sym_size")
        node.meta["val"] = shape[place]
        return SymbolicInt(shape[place], other[place], node)

    def _numel(self, tensor: Tensor) -> Value:
        total: Value = 1
        for each in self._size(tensor):
            total = each * total
        return total

    def _part(self, name: str, tensor: Tensor, index: Value, *value: Value) -> Value:
        if any(
            isinstance(each, Tensor) and each.dtype is torch.bool and self.knows(each) for each in tree_leaves(index)
        ):
            if name == "__getitem__":
                self._refuse_sizes("a mask as a subscript: the size of the result depends on values; use torch.where")
        with self:
            result, positions = index_parts(tensor, index)
            packets: Value = {each: operation(each) for each in ("index", "index_put_")}
            if name == "__getitem__":
                return packets["index"].Tensor(result, positions) if positions else result
            written = value[0] if isinstance(value[0], Tensor) else torch.tensor(value[0], dtype=tensor.dtype)
            if positions:
                packets["index_put_"].default(result, positions, written)
            elif isinstance(value[0], Tensor):
                result.copy_(written)
            else:
                result.fill_(value[0])
            return None

    def _call(self, func: Value, path: str, args: Value, kwargs: Value) -> Value:
        found = meaning(path, args, kwargs)
        if found is not None:
            return self.computed(*found)
        inner = getattr(func, "__wrapped__", None)
        if inner is not None:
            # A function that PyTorch writes in Python, too: what it calls.
            self.argument((args, kwargs))
            last = next(iter(reversed(self.graph.nodes)), None)
            with contextlib.suppress(UnseenError), self:
                result = inner(*args, **kwargs)
                if all(map(self.knows, _tensors(result))):
                    return result
            self._forget(last)
        return self.computed(own_operation(path, func).default, args, kwargs)

    def _forget(self, last: Node | None) -> None:
        """Take out the nodes after one: they do not lead to a result."""
        for node in list(reversed(self.graph.nodes)):
            if node is last or node.op == "placeholder":
                break
            self.graph.erase_node(node)
        self._nodes = {key: pair for key, pair in self._nodes.items() if not pair[1]._erased}

    def computed(self, overload: Value, args: Value, kwargs: Value) -> Value:
        """Compute an operation, note it, and return its value."""
        plain_args, plain_kwargs = tree_map(_plain, (args, kwargs))
        given = self.argument(args), self.argument(kwargs)
        with DisableTorchDispatch(), torch._C.DisableTorchFunction():
            other = self._otherwise(overload, args, kwargs) if self.changing else None
            result = overload.compute(plain_args, plain_kwargs)
        node = self.graph.call_function(overload, *given, name=overload.overloadpacket.__name__)
        if isinstance(result, Tensor):
            self.place(result, node, other)
        elif isinstance(result, list | tuple):
            node.meta["val"] = [_shape_of(each) if isinstance(each, Tensor) else each for each in result]
            for place, each in enumerate(result):
                if isinstance(each, Tensor):
                    part = self.graph.call_function(operator.getitem, (node, place))
                    self.place(each, part, None if other is None else other[place])
        return result

    def _otherwise(self, overload: Value, args: Value, kwargs: Value) -> Value:
        """Return an operation's result for the other sizes: its shape."""
        args, kwargs = tree_map(self.other, (args, kwargs))
        kwargs = {name: torch.device("meta") if name == "device" else each for name, each in kwargs.items()}
        if not any(isinstance(each, Tensor) for each in tree_leaves((args, kwargs))):
            kwargs["device"] = torch.device("meta")
        try:
            return overload.compute(args, kwargs)
        except NotImplementedError:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            raise RuntimeError(
                f"{overload} works for the example's sizes only ({error}): a size that changes is written as a number in the "
                "program, or dimensions that have to be equal have different names in dynamic_shapes"
            ) from error


def _plain(value: Value) -> Value:
    return int(value) if isinstance(value, SymbolicInt) else value


def _tensors(result: Value) -> Iterator[Tensor]:
    return (each for each in tree_leaves(result) if isinstance(each, Tensor))


def _shape_of(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape and type that has no values."""
    with DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
