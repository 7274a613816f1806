"""Modules whose ``forward`` is the code of a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, TypeAlias

import webgpu_torch as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module, Parameter

from .codegen import Globals, known_globals
from .graph import Graph, PythonCode

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_numbers = itertools.count()
Value: TypeAlias = Any
State: TypeAlias = dict[str, Any]


def _forward_from_src(src: str, globals: Globals, co_fields: object = None) -> Callable[..., Value]:
    """Return the function ``forward`` that a text defines; tracebacks show its lines."""
    names = dict(globals)
    file = f"<torch.fx graph {next(_numbers)}>"
    linecache.cache[file] = (len(src), None, src.splitlines(keepends=True), file)
    exec(compile(src, file, "exec"), names)
    return names["forward"]


def _import_line(name: str, value: Value) -> str:
    """Return how a program imports a value under a name.

    Raises:
        RuntimeError: it is not found where it says that it is defined.
    """
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {name}"
    if value is type(None) or isinstance(value, float):
        return f"{name} = type(None)" if value is type(None) else f"{name} = float('{value}')"
    if isinstance(value, str):
        # An annotation that stands in quotes.
        return f"{name} = {value!r}"
    if value is torch.device:
        return f"from {torch.__name__} import device as {name}"
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", name)
    if module is None or "<locals>" in path:
        raise RuntimeError(
            f"{value!r} cannot be imported: define it at the top of a module to save a graph that uses it"
        )
    outer, _, rest = path.partition(".")
    return f"from {module} import {outer} as {name}" if not rest else f"from {module} import {outer}\n{name} = {path}"


def _import_block(globals: Globals) -> str:
    return "\n".join(dict.fromkeys(_import_line(name, value) for name, value in globals.items()))


class _CodeOnlyModule(Module):
    """A module with the state of another and nothing else."""

    def __init__(self, body: State) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: State, import_block: str) -> Module:
    """Return a saved module: its code is traced again.

    Args:
        body: its state, with its code under ``"_code"``.
        import_block: what the code needs.
    """
    from ._symbolic_trace import Tracer

    names: Globals = {}
    exec(import_block, names)
    code = body.pop("_code")
    made = _CodeOnlyModule(body)
    type(made).forward = _forward_from_src(code, names)  # type: ignore[method-assign]
    tracer_class = body.get("_tracer_cls") or Tracer

    # Modules that were called stay calls.
    keeping = type("KeepModules", (tracer_class,), {"is_leaf_module": lambda *_: True})
    graph = keeping().trace(made, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_class
    result = GraphModule(made, graph, class_name=body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(result, name):
            setattr(result, name, value)
    return result


def _split(target: str) -> tuple[list[str], str]:
    *path, name = target.split(".")
    return path, name


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Let a module have what another has at a path."""
    path, name = _split(target)
    source: Value = from_module
    for part in path:
        source = getattr(source, part)
    _assign_attr(getattr(source, name), to_module, target)


def _assign_attr(from_obj: Value, to_module: Module, target: str) -> None:
    """Put a value at a path of a module; modules on the way are made where there are none."""
    path, name = _split(target)
    owner: Value = to_module
    for part in path:
        inner = getattr(owner, part, None)
        if inner is owner:
            continue
        if inner is None:
            inner = Module()
            setattr(owner, part, inner)
        owner = inner
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        owner.register_buffer(name, from_obj)
    else:
        setattr(owner, name, from_obj)


class GraphModule(Module):
    """A module whose ``forward`` is the code of a graph, which is written anew after changes by :meth:`recompile`.

    Args:
        root: the module that has what the graph's paths name, or a dictionary of paths.
        graph: the graph.
        class_name: the name of the module's class.

    Raises:
        RuntimeError: a dictionary lacks what the graph names.
    """

    # Each has a class of its own, whose forward is its code.
    def __new__(cls, *args: Value, **kwargs: Value) -> Self:
        base = next(each for each in cls.__mro__ if "_is_graph_module_impl" not in vars(each))
        own = {"_is_graph_module_impl": True, "__module__": base.__module__}
        # Libraries look for PyTorch's name of these classes.
        own["__qualname__"] = f"{base.__qualname__}.__new__.<locals>.GraphModuleImpl"
        kind: Any = type(base.__name__, (base,), own)
        return object.__new__(kind)

    def __init__(self, root: Module | dict[str, Value], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [str(each.target) for each in graph.nodes if each.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for target in targets:
                _copy_attr(root, self, target)
        else:
            missing = [each for each in targets if each not in root]
            if missing:
                raise RuntimeError(
                    f"the graph refers to target {missing[0]} but that target was not provided in root: {list(root)}"
                )
            for target in sorted(dict.fromkeys(targets), key=lambda each: each.count(".")):
                _assign_attr(root[target], self, target)
        self.graph = graph
        local = graph._tracer_cls is not None and "<locals>" in graph._tracer_cls.__qualname__
        self._tracer_cls = None if local else graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Value] = {}

    # The graph is no part of the module's state.
    __jit_unused_properties__ = ["graph"]

    @property
    def graph(self) -> Graph:
        """The graph; assigning another one writes its code."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The code of ``forward``."""
        return self._code

    def recompile(self) -> PythonCode:
        """Write the graph's code and let ``forward`` be it; to be called after a graph was changed."""
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        type(self).forward = _forward_from_src(made.src, made.globals)  # type: ignore[method-assign]
        return made

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path; modules on the way are made. Return False if something else is in its way."""
        path, name = _split(target)
        owner: Module = self
        for part in path:
            inner = getattr(owner, part, None)
            if inner is None:
                inner = Module()
                setattr(owner, part, inner)
            if not isinstance(inner, Module):
                return False
            owner = inner
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module at a path; return whether there was one."""
        path, name = _split(target)
        owner: Value = self
        for part in path:
            owner = getattr(owner, part, None)
            if not isinstance(owner, Module):
                return False
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the modules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used |= {".".join(parts[: count + 1]) for count in range(len(parts))}
                if node.op == "call_module":
                    inside = self.get_submodule(str(node.target))
                    used |= {f"{node.target}.{name}" for name, _ in inside.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Write the code, and the state beside it, into a folder that can be imported.

        Args:
            folder: the folder.
            module_name: the class's name.
        """
        place = Path(folder)
        place.mkdir(exist_ok=True)
        torch.save(self.state_dict(), place / "state_dict.pt")
        lines = [
            _import_block(known_globals()),
            "import webgpu_torch as torch",
            f"\n\nclass {module_name}(torch.nn.Module):",
        ]
        lines.append("    def __init__(self):\n        super().__init__()")
        for name, module in self.named_children():
            torch.save(module, place / f"{name}.pt")
            lines.append(f'        self.{name} = torch.load("{place / name}.pt", weights_only=False)')
        tensors: Iterable[tuple[str, Tensor, str]] = (
            (name, each, "Parameter" if isinstance(each, Parameter) else "Buffer")
            for name, each in {**self._parameters, **self._buffers}.items() if each is not None
        )  # fmt: skip
        for name, each, kind in tensors:
            lines.append(f"        self.{name} = torch.nn.{kind}(torch.empty({list(each.shape)}, dtype={each.dtype}))")
        lines.append(f'        self.load_state_dict(torch.load("{place / "state_dict.pt"}"))')
        lines.append("\n".join("    " + line for line in self.code.split("\n")) + "\n")
        (place / "module.py").write_text("\n".join(lines))
        (place / "__init__.py").write_text("from .module import *\n")

    def _state(self) -> State:
        state = self.__dict__.copy()
        state["_graphmodule_cls_name"] = type(self).__name__
        del state["_graph"]
        return state

    def __reduce__(self) -> tuple[Value, ...]:
        made = self._graph.python_code(root_module="self")
        return reduce_graph_module, ({**self._state(), "_code": made.src}, _import_block(made.globals))

    def __deepcopy__(self, memo: dict[int, Value]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        source = _CodeOnlyModule(copy.deepcopy(self._state(), memo))
        GraphModule.__init__(made, source, copy.deepcopy(self._graph, memo), type(self).__name__)
        for name, value in vars(source).items():
            if name not in vars(made) or name in (
                "_tracer_cls",
                "_tracer_extras",
                "meta",
                "_forward_hooks",
                "_forward_pre_hooks",
            ):
                vars(made)[name] = value
        for name, value in source._buffers.items():
            # What the graph does not name is kept, too.
            made._buffers.setdefault(name, value)
        for kept, copied in ((made._parameters, source._parameters), (made._modules, source._modules)):
            for name, value in copied.items():
                kept.setdefault(name, value)  # type: ignore[arg-type]
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.copy(self._graph), type(self).__name__)
        made.meta = self.meta
        return made

    def print_readable(self, print_output: bool = True) -> str:
        """Return the code as that of a class, and print it."""
        body = "\n".join("    " + line if line else line for line in self.code.strip("\n").split("\n"))
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return "\n".join(
            [super().__repr__(), self._code, "# To see more debug info, please use `graph_module.print_readable()`"]
        )
