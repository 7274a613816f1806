"""Graphs of functions and modules, by calling them with proxies."""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import inspect
import math
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias, TypeVar

import webgpu_torch as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import count_modes
from webgpu_torch_core.notices import warn
from webgpu_torch_core.tensors import pytree
from webgpu_torch_nn import Module, Parameter

from .graph import Graph
from .graph_module import GraphModule
from .immutable_collections import Argument, map_aggregate
from .node import base_types
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

Value: TypeAlias = Any
Values: TypeAlias = tuple[Any, ...]
Named: TypeAlias = dict[str, Any]
Function: TypeAlias = Callable[..., Any]
Wrapped = TypeVar("Wrapped")

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
#: functions that tracing does not look into: by the names of a module and the name among them
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_tracing = 0


def is_fx_tracing() -> bool:
    """Return whether a function is being traced."""
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """Stands for an argument of which nothing is known, in ``concrete_args``."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """Stands for an argument; its attributes go to the node."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


class ProxyableClassMeta(type):
    """The class of classes whose instances, where one is made of proxies, are nodes of a graph."""

    def __call__(cls, *args: Value, **kwargs: Value) -> Value:
        proxy = _find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


def _assert_is_none(value: object, msg: str) -> None:
    assert value is None, msg


class Tracer(TracerBase):
    """Traces functions and modules: subclasses decide what is looked into and what is recorded.

    Args:
        autowrap_modules: modules whose functions are recorded as they are called with proxies, ``math`` by default.
        autowrap_functions: functions that are, too.
        param_shapes_constant: let programs branch on the shapes of parameters.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Function, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {id(each) for each in autowrap_functions}
        for module in autowrap_modules:
            self._autowrap_function_ids |= {
                id(value) for name, value in vars(module).items() if not name.startswith("_") and callable(value)
            }
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.tensor_attrs: dict[Tensor, str] = {}
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name with a prefix that the module has no attribute of."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_arg(self, a: Value) -> Argument:
        """Return what a node keeps of a value: parameters and tensors become attributes of the module."""
        if isinstance(a, Parameter):
            for name, each in self.root.named_parameters():
                if a is each:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, each in self.root.named_buffers():
                if a is each:
                    return self.create_node("get_attr", name, (), {})
            if a not in self.tensor_attrs:
                self.tensor_attrs[a] = self.get_fresh_qualname("_tensor_constant")
                setattr(self.root, self.tensor_attrs[a], a)
            return self.create_node("get_attr", self.tensor_attrs[a], (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(each) for each in a), {})
        if isinstance(type(a), ProxyableClassMeta):
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether calls of a module are not looked into: by default those of ``torch.nn``, but for ``Sequential``."""
        home = type(m).__module__
        return home.startswith(("torch.nn", "torch.ao.nn", "webgpu_torch_nn")) and not isinstance(
            m, torch.nn.Sequential
        )

    def path_of_module(self, mod: Module) -> str:
        """Return a module's path inside of the one that is traced.

        Raises:
            NameError: it is not inside of it.
        """
        if self.submodule_paths is not None and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, each in self.root.named_modules():
            if mod is each:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Function, args: Values, kwargs: Named) -> Value:
        """Return what a call of a module gives: a proxy of the call, or what its ``forward`` gives."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{calls}" if calls else scope.module_path
            self.num_calls[path] = calls + 1
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Value, parameter_proxy_cache: dict[str, Proxy]) -> Value:
        """Return what reading an attribute of a module gives: a proxy for a parameter, else its value."""
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            named = self.root.named_buffers()
        else:
            return attr_val
        for name, each in named:
            if attr_val is each:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._parameter_proxy(name, each)
                return parameter_proxy_cache[name]
        return attr_val

    def _parameter_proxy(self, name: str, value: Tensor) -> Proxy:
        # Tracers that override the method may know no such argument.
        takes = "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters
        if self.param_shapes_constant and isinstance(value, Parameter) and takes:
            return self.create_proxy(
                "get_attr", name, (), {}, proxy_factory_fn=lambda node: ParameterProxy(self, node, name, value)
            )
        return self.create_proxy("get_attr", name, (), {})

    # Tracing

    def trace(self, root: Module | Function, concrete_args: Named | None = None) -> Graph:
        """Return the graph of a module or function.

        Args:
            root: the module or function.
            concrete_args: values of arguments that are no inputs of the graph.

        Raises:
            TraceError: it does what cannot be told without values, such as a branch on one.
        """
        if isinstance(root, Module):
            self.root: Module = root
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {each: name for name, each in root.named_modules()}
        else:
            self.root, function = Module(), root
        kind = getattr(self, "__fx_tracer_cls__", None) or type(self)
        self.graph = Graph(tracer_cls=kind)
        self.tensor_attrs = _tensors_of(self.root)
        function, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with self._patched(function):
            result = function(*args)
            self.create_node(
                "output",
                "output",
                (self.create_arg(result),),
                {},
                type_expr=getattr(function, "__annotations__", {}).get("return"),
            )
        self.submodule_paths = None
        return self.graph

    @contextlib.contextmanager
    def _patched(self, function: Function) -> Iterator[None]:
        global _tracing
        proxies: dict[str, Proxy] = {}
        read, call = Module.__getattr__, Module.__call__

        def attribute(module: Module, name: str) -> Value:
            return self.getattr(name, read(module, name), proxies)

        def called(module: Module, *args: Value, **kwargs: Value) -> Value:
            self._wrap_names(patches, vars(inspect.getmodule(type(module)) or math))
            self._wrap_names(patches, getattr(getattr(module, "forward", None), "__globals__", {}))
            return self.call_module(module, lambda *args, **kwargs: call(module, *args, **kwargs), args, kwargs)

        with _Patches() as patches:
            patches.attribute(Module, "__getattr__", attribute)
            patches.attribute(Module, "__call__", called)
            for (_, name), names in list(_wrapped_fns_to_patch.items()):
                if name in names or hasattr(builtins, name):
                    patches.name(names, name, _recorded(names.get(name, getattr(builtins, name, None)), True))
            self._wrap_names(patches, getattr(function, "__globals__", {}))
            for module in self._autowrap_search:
                self._wrap_names(patches, vars(module))
            count_modes(1)
            _tracing += 1
            try:
                yield
            finally:
                _tracing -= 1
                count_modes(-1)

    def _wrap_names(self, patches: _Patches, names: Named) -> None:
        if patches.first_time(names):
            for name, value in list(names.items()):
                if not name.startswith("_") and callable(value) and id(value) in self._autowrap_function_ids:
                    patches.name(names, name, _recorded(value, False))

    def create_args_for_root(
        self, root_fn: Function, is_module: bool, concrete_args: Named | Values | None = None
    ) -> tuple[Function, list[Value]]:
        """Make the graph's inputs, and return the function with what to call it with.

        Args:
            root_fn: the function.
            is_module: whether it is a module's, whose first argument is the module.
            concrete_args: see :meth:`trace`; a tuple is by position.

        Raises:
            RuntimeError: a module's function takes no ``self``.
        """
        analysed = inspect.unwrap(root_fn)
        code: CodeType = analysed.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = iter(code.co_varnames)
        args: list[Value] = []
        skipped = 0
        if is_module:
            if not count:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            skipped = 1
            next(names)
            args.append(self.root)
        if isinstance(concrete_args, tuple):
            concrete_args = dict(zip(code.co_varnames[skipped:count], concrete_args))
        parameters = inspect.signature(analysed).parameters
        args += [self._input(next(names), concrete_args, parameters, analysed) for _ in range(skipped, count)]
        if code.co_kwonlyargcount > 0 or code.co_flags & _VARIADIC:
            if code.co_flags & inspect.CO_VARARGS:
                args.append(self._input("*" + next(names), concrete_args, parameters, analysed))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(self._input("**" + next(names), concrete_args, parameters, analysed))
            root_fn = _positional(analysed, len(args))
        return root_fn, args

    def _input(
        self, name: str, concrete_args: Named | None, parameters: types.MappingProxyType[str, inspect.Parameter], function: Function
    ) -> Value:  # fmt: skip
        default = () if name.startswith("*") else tuple(
            each for each in (parameters[name].default,) if each is not inspect.Parameter.empty
        )  # fmt: skip
        if concrete_args is None or name not in concrete_args:
            kind = getattr(function, "__annotations__", {}).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        count = 0

        def given(value: Value) -> Value:
            nonlocal count
            count += 1
            made = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                vars(made.node).update({} if value is PH else vars(value))
                return made
            text = f"{name} has been specialized to have value {value} but got another value"
            if value is None:
                self.create_proxy("call_function", _assert_is_none, (made, text), {})
            elif isinstance(value, base_types) and not isinstance(value, Tensor):
                self.create_proxy("call_function", torch._assert, (made == value, text), {})
            else:
                warn(f"no check that the input {name} is what the function was traced with")
            return value

        return pytree.tree_map(given, concrete_args[name])

    def __deepcopy__(self, memo: dict[int, Value]) -> Tracer:
        made = type(self).__new__(type(self))
        for name, value in vars(self).items():
            vars(made)[name] = copy.copy(value) if name in ("_autowrap_search",) else copy.deepcopy(value, memo)
        return made


class _Patches:
    """Names that have another value for a while, and the places in which they were looked for."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self._seen: set[int] = set()

    def __enter__(self) -> _Patches:
        return self

    def __exit__(self, *_: object) -> None:
        for undo in reversed(self._undo):
            undo()

    def first_time(self, thing: object) -> bool:
        """Return whether something was not asked about before."""
        known = id(thing) in self._seen
        self._seen.add(id(thing))
        return not known

    def attribute(self, owner: type, name: str, value: Function) -> None:
        """Let a class have another function."""
        before = getattr(owner, name)
        setattr(owner, name, functools.wraps(before)(value))
        self._undo.append(lambda: setattr(owner, name, before))

    def name(self, names: Named, name: str, value: Function) -> None:
        """Let a name of a module mean another function."""
        if name in names:
            before = names[name]
            self._undo.append(lambda: names.__setitem__(name, before))
        else:
            self._undo.append(lambda: names.pop(name, None))
        names[name] = value


def _recorded(function: Value, marked: bool) -> Function:
    """Return a function whose calls with proxies are nodes."""

    @functools.wraps(function)
    def call(*args: Value, **kwargs: Value) -> Value:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        if marked:
            made.node.meta["is_wrapped"] = True
        return made

    return call


def _find_proxy(*values: Value) -> Proxy | None:
    found: list[Proxy] = []

    def look(each: Value) -> None:
        if isinstance(each, Proxy):
            found.append(each)

    map_aggregate(values, look)
    return found[-1] if found else None


def _positional(function: FunctionType, count: int) -> FunctionType:
    """Return a function that takes all of its arguments by position, ``*args`` and ``**kwargs`` as two of them."""
    code = function.__code__.replace(
        co_flags=function.__code__.co_flags & ~_VARIADIC, co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0
    )
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    return made


def _tensors_of(module: Module) -> dict[Tensor, str]:
    """Return the paths of tensors that are plain attributes of a module or of one inside of it."""
    found: dict[Tensor, str] = {}
    for path, inner in module.named_modules():
        for name, value in vars(inner).items():
            if isinstance(value, Tensor):
                found.setdefault(value, f"{path}.{name}" if path else name)
    return found


def wrap(fn_or_name: Wrapped) -> Wrapped:
    """Mark a function, by its name or as a decorator, at the top of a module: tracing records its calls and does not look inside.

    Args:
        fn_or_name: the function, or the name that it has in the module that calls this.

    Raises:
        RuntimeError: it is neither a function nor a name.
        NotImplementedError: this is not called at the top of a module.
    """
    given: object = fn_or_name
    if not callable(given) and not isinstance(given, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = given if isinstance(given, str) else given.__code__.co_name
    frame = inspect.currentframe()
    frame = None if frame is None else frame.f_back
    if frame is None or frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


def symbolic_trace(root: Module | Function, concrete_args: Named | None = None) -> GraphModule:
    """Return a module whose graph is what a function or module computes.

    Args:
        root: the function or module; it is called once, with proxies in the place of its arguments.
        concrete_args: values of arguments that are no inputs of the graph.

    Raises:
        TraceError: it does what cannot be told without values, such as a branch on one.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
