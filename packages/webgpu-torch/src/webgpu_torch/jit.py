"""``torch.jit``: modules traced as graphs, a part of webgpu-torch-tools; there is no TorchScript, whose marks change nothing."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from webgpu_torch_nn import Module
from webgpu_torch_nn.parameter import is_lazy

from ._parts import part
from .futures import Future

if TYPE_CHECKING:
    from webgpu_torch_tools.traced_modules import TopLevelTracedModule as TopLevelTracedModule
    from webgpu_torch_tools.traced_modules import TracedModule as TracedModule
    from webgpu_torch_tools.traced_modules import TracingCheckError as TracingCheckError
    from webgpu_torch_tools.traced_modules import freeze as freeze
    from webgpu_torch_tools.traced_modules import load as load
    from webgpu_torch_tools.traced_modules import optimize_for_inference as optimize_for_inference
    from webgpu_torch_tools.traced_modules import save as save
    from webgpu_torch_tools.traced_modules import trace as trace
    from webgpu_torch_tools.traced_modules import trace_module as trace_module

#: what is loaded when it is first asked for
_TRACING = (
    "TopLevelTracedModule", "TracedModule", "TracingCheckError", "freeze", "load", "optimize_for_inference", "save", "trace",
    "trace_module",
)  # fmt: skip
#: the traces that are being made
_tracing: list[bool] = []

Marked = TypeVar("Marked")

__all__ = [
    "Attribute", "Final", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "ScriptWarning",
    "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "annotate", "enable_onednn_fusion",
    "export", "export_opnames", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing",
    "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _TRACING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(part("webgpu_torch_tools.traced_modules", "tools"), name)
    return found


def is_tracing() -> bool:
    """Return whether :func:`trace` is calling what it traces."""
    return bool(_tracing)


def is_scripting() -> bool:
    """Return False."""
    return False


def _require_sizes(obj: object) -> None:
    """Raise a RuntimeError where a module has parameters or buffers that have no size yet."""
    modules = typing.cast("Module", obj).modules() if isinstance(obj, Module) else ()
    for module in modules:
        for what, held in (("parameters", module._parameters), ("buffers", module._buffers)):
            for name, each in held.items():
                if is_lazy(each):
                    raise RuntimeError(
                        f"'{type(module).__name__}' has uninitialized {what} {name}. Did you forget to run a forward pass?"
                    )


def script(obj: Marked, *_: object, **__: object) -> Marked:
    """Return the function, class or module itself, which computes the same.

    Raises:
        RuntimeError: a module has parameters or buffers that have no size yet.
    """
    _require_sizes(obj)
    return obj


def script_if_tracing(fn: Marked) -> Marked:
    """Return the function."""
    return fn


_script_if_tracing = script_if_tracing


def script_method(fn: Marked, _rcb: object = None) -> Marked:
    """Return the method."""
    return fn


def ignore(fn: Any = None, drop: bool = False, **_: Any) -> Any:
    """Return the function, or a decorator that does."""
    return fn if callable(fn) else lambda function: function


def unused(fn: Marked) -> Marked:
    """Return the function."""
    return fn


def export(fn: Marked) -> Marked:
    """Return the function."""
    return fn


def interface(obj: Marked) -> Marked:
    """Return the class.

    Raises:
        RuntimeError: it is no class.
    """
    if not callable(obj) or type(obj).__name__ == "function":
        raise RuntimeError("interface must be applied to a class")
    return obj


def annotate(the_type: object, the_value: Marked) -> Marked:
    """Return the value."""
    return the_value


def _overload(func: Marked) -> Marked:
    """Return the function: the last definition of a name is the one that runs."""
    return func


_overload_method = _overload
_drop = unused


def isinstance(obj: object, target_type: Any) -> bool:
    """Return whether a value is of a type, looking into ``list[int]``, ``dict[str, Tensor]``, ``tuple[int, float]`` and unions."""
    if typing.get_origin(target_type) is None and type(target_type) is tuple:
        return any(isinstance(obj, each) for each in target_type)
    origin, inside = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return _is(obj, type(None) if target_type is None else target_type)
    if origin in (list, set, frozenset):
        return _is(obj, origin) and all(isinstance(each, inside[0]) for each in typing.cast("list[object]", obj))
    if origin is dict:
        pairs = typing.cast("dict[object, object]", obj).items() if _is(obj, dict) else None
        return pairs is not None and all(
            isinstance(key, inside[0]) and isinstance(value, inside[1]) for key, value in pairs
        )
    if origin is tuple:
        values = typing.cast("tuple[object, ...]", obj) if _is(obj, tuple) else None
        return values is not None and len(values) == len(inside) and all(map(isinstance, values, inside))
    return any(isinstance(obj, each) for each in inside)


def _is(obj: object, kind: object) -> bool:
    return kind is Any or issubclass(type(obj), kind)  # type: ignore[arg-type]


class Attribute(NamedTuple):
    """A value with the type that a compiled module would give its attribute."""

    value: object
    type: object


class TracerWarning(Warning):
    """What a tracer would warn with; nothing is traced."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Do nothing: there are no such warnings."""


class ScriptWarning(Warning):
    """What a compiler of scripts would warn with; nothing is compiled."""


class ScriptModule(Module):
    """A module whose methods a program marks for compilation; they run as they are."""


class RecursiveScriptModule(ScriptModule):
    """The type of modules compiled from others, of which there are none."""


class ScriptFunction(Generic[Marked]):
    """The type of compiled functions, of which there are none."""


class strict_fusion(contextlib.nullcontext[None]):
    """A block in which nothing is checked: kernels merge wherever they can."""


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Change nothing for a while: plans are always optimised."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """Change nothing for a while: there is one scheduler, which merges kernels."""
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the strategy: sizes that change are run-time values whatever it says."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing: there is no oneDNN."""


def onednn_fusion_enabled() -> bool:
    """Return False: there is no oneDNN."""
    return False


def export_opnames(m: object) -> list[str]:
    """Return no names: modules are not compiled to operations of a script."""
    return []


def fork(func: Callable[..., Marked], *args: object, **kwargs: object) -> Future[Marked]:
    """Return a future that has the function's result: outside a script PyTorch calls it at once, too."""
    result: Future[Marked] = Future()
    result.set_result(func(*args, **kwargs))
    return result


def wait(future: Future[Marked]) -> Marked:
    """Return what a future of :func:`fork` has."""
    return future.wait()
