"""Values that stand for what is not known yet: what is done with one becomes a node of a graph."""

from __future__ import annotations

import dataclasses
import dis
import enum
import inspect
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeAlias

from webgpu_torch_core.dispatch.overrides import PATHS, is_tensor_method_or_property, notice_class
from webgpu_torch_core.tensors.tensor import Size
from webgpu_torch_nn import Parameter

from .graph import Graph
from .immutable_collections import Argument
from .naming import OPERATORS, REFLECTABLE
from .node import Node, Target, base_types, map_arg

#: a value while a function is traced: a proxy, or anything that the function uses beside
Value: TypeAlias = Any
Values: TypeAlias = tuple[Any, ...]
Named: TypeAlias = dict[str, Any]


class TraceError(ValueError):
    """A function does what cannot be told without values, such as a branch on one."""


@dataclasses.dataclass
class Scope:
    """The module whose forward is traced: its path, and its type."""

    module_path: str
    module_type: type | None


class ScopeContextManager:
    """A block in which the current scope is another one."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._before = scope, dataclasses.replace(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *_: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


class TracerBase:
    """Makes the nodes of what is done with proxies: subclasses change what is recorded and how."""

    graph: Graph
    record_stack_traces = False
    #: whether an ``assert`` of a proxy becomes a node
    trace_asserts = False
    #: whether buffers are proxies, as parameters are
    proxy_buffer_attributes = False
    #: the method of a module that is traced
    traced_func_name = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, type]]
    node_name_to_scope: dict[str, tuple[str, type | None]]

    def create_node(
        self, kind: str, target: Target, args: Values, kwargs: Named, name: str | None = None, type_expr: object | None = None
    ) -> Node:  # fmt: skip
        """Put a node into the graph and return it."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        if self.record_stack_traces:
            frames = [each for each in inspect.stack(0) if not each.filename.startswith(_HERE)]
            node.stack_trace = "\n".join(
                f'File "{each.filename}", line {each.lineno}, in {each.function}' for each in reversed(frames)
            )
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return a value that stands for a node's."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: Values,
        kwargs: Named,
        name: str | None = None,
        type_expr: object | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Put a node into the graph, whose arguments may be proxies, and return a proxy of its value."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Value) -> Argument:
        """Return what a node keeps of a value: the nodes of proxies, and numbers, texts, types and tensors as they are.

        Raises:
            NotImplementedError: it is of a type that a graph does not keep.
            RuntimeError: a proxy is the key of a dictionary.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            made = tuple(self.create_arg(each) for each in a)
            return type(a)(*made) if hasattr(a, "_fields") else made
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(each) for key, each in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (*base_types, enum.Enum, Node)) or a is None or a is ...:
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {each.name: self.create_arg(getattr(a, each.name)) for each in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Value) -> Argument:
        if isinstance(key, str):
            return key
        made = self.create_arg(key)

        def refuse(node: Node) -> NoReturn:
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")

        map_arg(made, refuse)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """Return whether a proxy is true, as a tracer may that knows more.

        Raises:
            TraceError: this one does not.
        """
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Value]:
        """Return what a loop over a proxy takes, as a tracer may that knows more.

        Raises:
            TraceError: this one does not.
        """
        raise TraceError(
            "Proxy object cannot be iterated: its length is not known while a function is traced. Put the loop, or what takes "
            "*args or **kwargs, into a function marked with torch.fx.wrap, or loop over a range of known length"
        )

    def keys(self, obj: Proxy) -> Proxy:
        """Return the keys of a proxy."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Puts what is done with proxies at the end of a graph, or where the graph says that nodes are inserted."""

    def __init__(self, graph: Graph) -> None:
        # Such proxies live outside of any tracing: from here on calls look for them.
        notice_class(Proxy)
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """Stands for the value of a node: operators, methods, attributes and functions of ``torch`` make further nodes.

    Args:
        node: the node.
        tracer: what makes the nodes; without one they go into the node's graph.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Value:
        return Attribute(self, k)

    # Python looks for these when it copies, and must not find attributes that are nodes.
    def __getstate__(self) -> Named:
        return self.__dict__

    def __setstate__(self, state: Named) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Value]) -> Proxy:
        return Proxy(self.node, self.tracer)

    def __call__(self, *args: Value, **kwargs: Value) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Value]:
        instruction = _calling_instruction()
        if instruction is not None and instruction.opname == "UNPACK_SEQUENCE":
            return (self[place] for place in range(instruction.argval))
        return self.tracer.iter(self)

    def __getitem__(self, key: Value) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.getitem, (self, key), {})

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _calling_assertion():
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Proxy:
        """Return the keys."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable[..., Value], types: object, args: Values | None = None, kwargs: Named | None = None
    ) -> Proxy:
        """Make a node of a call.

        Raises:
            RuntimeError: proxies of several tracers meet.
        """
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}
        _visit((args, kwargs), lambda each: tracers.setdefault(each.tracer))
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        name = tracer.graph._target_to_str(orig_method.__name__)
        if PATHS.get(orig_method) == "torch.einsum" and len(args) == 2 and isinstance(args[1], (list, tuple)):
            # PyTorch looks for overriding arguments after it took the operands out of their list.
            args = (args[0], *args[1])
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class Attribute(Proxy):
    """An attribute of a proxy: a call of it is a call of a method; else, once it is used, a node reads it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Value, **kwargs: Value) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose shape is known, so that a program may branch on it."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """The parameter's shape."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """How many dimensions the parameter has."""
        return self.param.ndim

    def size(self) -> Size:
        """Return the parameter's shape."""
        return self.param.shape

    def dim(self) -> int:
        """Return how many dimensions the parameter has."""
        return self.param.dim()

    def numel(self) -> int:
        """Return how many elements the parameter has."""
        return self.param.numel()

    nelement = numel


_HERE = __file__.rpartition("/")[0]


def assert_fn(x: object) -> None:
    """Refuse what is not true.

    Raises:
        AssertionError: it is not.
    """
    if not x:
        raise AssertionError("Assertion failed")


def _visit(values: Value, action: Callable[[Proxy], object]) -> None:
    """Call a function with each proxy among values."""
    if isinstance(values, Proxy):
        action(values)
    elif isinstance(values, (list, tuple)):
        for each in values:
            _visit(each, action)
    elif isinstance(values, dict):
        for each in values.values():
            _visit(each, action)
    elif isinstance(values, slice):
        _visit((values.start, values.stop, values.step), action)


def _calling_instruction(after: int = 0) -> dis.Instruction | None:
    """Return the instruction of the program that asks a proxy, or the ones after it."""
    frame = inspect.currentframe()
    for _ in range(2 if after == 0 else 3):
        frame = None if frame is None else frame.f_back
    if frame is None:
        return None
    following = [each for each in dis.get_instructions(frame.f_code) if each.offset >= frame.f_lasti]
    return following[after] if after < len(following) else None


def _calling_assertion() -> bool:
    """Return whether the program that asks whether a proxy is true raises an AssertionError if it is not."""
    for place in range(1, 4):
        instruction = _calling_instruction(place)
        if instruction is not None and instruction.opname == "LOAD_ASSERTION_ERROR":
            return True
    return False


def _define(method: str) -> None:
    function = getattr(operator, method)

    def compute(self: Proxy, *args: Value) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (self, *args), {})

    def reflect(self: Proxy, other: Value) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    name = method.strip("_")
    setattr(Proxy, f"__{name}__", compute)
    if method in REFLECTABLE:
        setattr(Proxy, f"__r{name}__", reflect)


for _method in OPERATORS:
    if _method not in ("div", "getitem"):
        _define(_method)
