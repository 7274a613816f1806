"""Custom operations by name, as ``torch.library``: Python functions, with a gradient if one is registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from webgpu_torch_core import Tensor, is_autocast_enabled
from webgpu_torch_core.autograd import Function

from ._ops.implementations import operation as _operation
from ._parts import part as _part

#: Keys under which PyTorch looks for an operation's function, whatever the device of its arguments.
_COMPOSED = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")


#: namespaces whose operations are another distribution's, loaded when one is first asked for: its module, and the extra it is in
_BROUGHT = {"quantized": ("webgpu_torch_tools._quantized.operations", "tools")}


class CustomOpDef:
    """An operation made by :func:`custom_op` or in a :class:`Library`; call it as the function.

    Its overloads, such as ``default``, are the operation itself.
    """

    def __init__(self, name: str, function: Callable[..., object] | None = None) -> None:
        self.name = name
        self.__name__ = name.rpartition("::")[2]
        self._kernels: dict[str, Callable[..., object]] = (
            {} if function is None else {"CompositeExplicitAutograd": function}
        )
        self._under_autocast: dict[str, Callable[..., object]] = {}
        self._differentiable: Any = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        kind = _device_type(args)
        cast = self._under_autocast.get("CPU" if kind == "cpu" else "CUDA")
        if cast is not None and is_autocast_enabled(kind):
            return cast(*args, **kwargs)
        return (self._kernel(kind) if self._differentiable is None else self._differentiable)(*args, **kwargs)

    def __getattr__(self, overload: str) -> CustomOpDef:
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.name})>"

    def _kernel(self, kind: str) -> Callable[..., object]:
        """Return the function for a type of device: its own, one for all, or what there is.

        Raises:
            NotImplementedError: nothing was registered.
        """
        for key in (kind.upper(), *_COMPOSED, *reversed(self._kernels)):
            if key in self._kernels:
                return self._kernels[key]
        raise NotImplementedError(
            f"{self.name} has no function yet: register one with torch.library.impl or register_kernel"
        )

    def register_fake(self, func: Callable[..., object], /) -> Callable[..., object]:
        """Accept the shape function; results are computed by the operation itself."""
        return func

    def register_kernel(self, device_types: object, func: Callable[..., object] | None = None, /) -> Any:
        """Set the function for some types of device, or for all of them (None)."""
        kinds = list(device_types) if isinstance(device_types, (list, tuple, set)) else [device_types]
        keys = _COMPOSED[:1] if device_types is None else [str(each).upper() for each in kinds]

        def keep(kernel: Callable[..., object]) -> Callable[..., object]:
            for key in keys:
                self._kernels.pop(key, None)
                self._kernels[key] = kernel
            return kernel

        return keep if func is None else keep(func)

    def register_under(self, key: str, func: Callable[..., object]) -> None:
        """Set the function under one of PyTorch's dispatch keys, such as ``CPU``, ``Autograd`` or ``AutocastCPU``."""
        if key.startswith("Autocast"):
            self._under_autocast[key.removeprefix("Autocast")] = func
        elif key.startswith("Autograd"):
            self._differentiable = func
        elif key != "Meta":
            self._kernels.pop(key, None)
            self._kernels[key] = func

    def register_autograd(
        self, backward: Callable[..., object], /, *, setup_context: Callable[..., object] | None = None
    ) -> None:
        """Register the gradient: ``setup_context(ctx, inputs, output)`` saves, ``backward(ctx, *grads)`` computes."""

        def keep_nothing(ctx: Any, inputs: Any, output: Any) -> None: ...

        def forward(*args: object) -> Any:
            return self._kernel(_device_type(args))(*args)

        members = {
            "forward": staticmethod(forward),
            "backward": staticmethod(backward),
            "setup_context": staticmethod(setup_context or keep_nothing),
        }
        self._differentiable = type(self.name.replace("::", "_"), (Function,), members).apply


def _device_type(values: Sequence[object]) -> str:
    """Return the type of device of the first tensor among arguments and in their lists; without one, ``cpu``."""
    for each in values:
        for inner in each if isinstance(each, (list, tuple)) else (each,):
            if isinstance(inner, Tensor):
                return inner.device.type
    return "cpu"


_operations: dict[str, CustomOpDef] = {}


def _find(op: str | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _operations:
        raise RuntimeError(f"operator {op} does not exist: define it with torch.library.custom_op first")
    return _operations[op]


def custom_op(
    name: str,
    fn: Callable[..., object] | None = None,
    /,
    *,
    mutates_args: object,
    device_types: object = None,
    schema: str | None = None,
    tags: object = None,
) -> Any:
    """Make a function an operation ``namespace::name``, found under ``torch.ops.namespace.name``; also a decorator.

    Raises:
        ValueError: the name has no namespace.
    """
    _checked(name)

    def make(function: Callable[..., object]) -> CustomOpDef:
        _operations[name] = made = CustomOpDef(name, function)
        return made

    return make if fn is None else make(fn)


def _checked(name: str) -> None:
    if name.count("::") != 1:
        raise ValueError(f"an operation's name should be 'namespace::name', got {name!r}")


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: object = ()) -> None:
    """Name an operation ``namespace::name``, whose function is registered later.

    Raises:
        ValueError: the name has no namespace.
    """
    _checked(qualname)
    _operations.setdefault(qualname, CustomOpDef(qualname))


def impl(qualname: str, types: object, func: Callable[..., object] | None = None, *, lib: Library | None = None) -> Any:
    """Register an operation's function for types of device (``"default"``: all); also a decorator."""
    return _find(qualname).register_kernel(None if types in ("default", ("default",)) else types, func)


class Library:
    """Operations of one namespace, defined and given functions by name.

    Args:
        ns: the namespace, ``torch.ops.<ns>``.
        kind: ``"DEF"``, ``"FRAGMENT"`` or ``"IMPL"``; only the last may not define.
        dispatch_key: under what :meth:`impl` registers where it is not told.

    Raises:
        ValueError: another kind.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported library kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Name an operation by its schema ``name(arguments) -> results`` and return the name."""
        if self.kind == "IMPL":
            raise ValueError("a library of kind IMPL defines no operations: make it with kind DEF or FRAGMENT")
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name.partition('.')[0]}", schema)
        return name

    def impl(
        self, op_name: str | CustomOpDef, fn: Callable[..., object], dispatch_key: str = "", *,
        with_keyset: bool = False, allow_override: bool = False,
    ) -> None:  # fmt: skip
        """Register an operation's function under one of PyTorch's dispatch keys."""
        if with_keyset:
            raise NotImplementedError("functions that take a DispatchKeySet are not supported: register one without")
        if isinstance(op_name, str):
            op_name = f"{self.ns}::{op_name.rpartition('::')[2].partition('.')[0]}"
        _find(op_name).register_under(dispatch_key or self.dispatch_key or _COMPOSED[1], fn)


def register_fake(op: str | CustomOpDef, func: Callable[..., object] | None = None, /, **_: object) -> Any:
    """Accept an operation's shape function; also a decorator."""
    found = _find(op)
    return found.register_fake if func is None else found.register_fake(func)


def register_kernel(op: str | CustomOpDef, device_types: object, func: Callable[..., object] | None = None, /) -> Any:
    """Set an operation's function for types of device; also a decorator."""
    return _find(op).register_kernel(device_types, func)


def register_autograd(
    op: str | CustomOpDef,
    backward: Callable[..., object],
    /,
    *,
    setup_context: Callable[..., object] | None = None,
    **_: object,
) -> None:
    """Register an operation's gradient, as :meth:`CustomOpDef.register_autograd`."""
    _find(op).register_autograd(backward, setup_context=setup_context)


class Namespace:
    """A namespace of ``torch.ops``: custom operations, and PyTorch's own under ``aten``, as attributes."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._path == "aten" and f"aten::{name}" not in _operations:
            found = _operation(name)
            if found is None:
                raise AttributeError(f"'torch.ops.aten' has no operation '{name}'")
            return found
        if self._path in _BROUGHT:
            _part(*_BROUGHT[self._path])
        if f"{self._path}::{name}" not in _operations:
            raise AttributeError(f"'torch.ops.{self._path}' has no operation '{name}'")
        return _operations[f"{self._path}::{name}"]


class Operations:
    """``torch.ops``: namespaces of operations as attributes, and the libraries that bring some.

    Attributes:
        kind: the class of the namespaces.
        brought: what loads a library's operations, by the end of its path without the suffix, such as ``torchvision/_C``.
        loaded_libraries: the paths that were loaded.
    """

    def __init__(self) -> None:
        self.kind = Namespace
        self.brought: dict[str, Callable[[], None]] = {}
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.__dict__[name] = self.kind(name)
        return made

    def load_library(self, path: str | PathLike[str]) -> None:
        """Register a library's operations, of which this library has a version of its own.

        Raises:
            OSError: it has none: what is compiled against PyTorch cannot be loaded.
        """
        found = Path(path)
        bring = self.brought.get(f"{found.parent.name}/{found.name.partition('.')[0]}")
        if bring is None:
            raise OSError(f"{found} is compiled against PyTorch, which is not here; its operations cannot be loaded")
        if str(path) not in self.loaded_libraries:
            bring()
            self.loaded_libraries.add(str(path))


ops = Operations()
