"""Custom operations by name, as ``torch.library``: Python functions, with a gradient if one is registered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from webgpu_torch_core.autograd import Function


class CustomOpDef:
    """An operation made by :func:`custom_op`; call it as the function."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self._differentiable: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs) if self._differentiable is None else self._differentiable(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.name})>"

    def register_fake(self, func: Callable[..., Any], /) -> Callable[..., Any]:
        """Accept the shape function; results are computed by the operation itself."""
        return func

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None, /) -> Any:
        """Replace the function; one serves every device."""
        del device_types

        def replace(kernel: Callable[..., Any]) -> Callable[..., Any]:
            self.function = kernel
            return kernel

        return replace if func is None else replace(func)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register the gradient: ``setup_context(ctx, inputs, output)`` saves, ``backward(ctx, *grads)`` computes."""

        def keep_nothing(ctx: Any, inputs: Any, output: Any) -> None:
            del ctx, inputs, output

        members = {
            "forward": staticmethod(lambda *args: self.function(*args)),
            "backward": staticmethod(backward),
            "setup_context": staticmethod(setup_context or keep_nothing),
        }
        self._differentiable = type(self.name.replace("::", "_"), (Function,), members).apply


_operations: dict[str, CustomOpDef] = {}


def _find(op: str | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _operations:
        raise RuntimeError(f"there is no operation {op!r}; define it with torch.library.custom_op first")
    return _operations[op]


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an operation ``namespace::name``, found under ``torch.ops.namespace.name``; also a decorator.

    Raises:
        ValueError: the name has no namespace.
    """
    del mutates_args, device_types, schema, tags
    if name.count("::") != 1:
        raise ValueError(f"custom_op's name should be 'namespace::name', got {name!r}")

    def define(function: Callable[..., Any]) -> CustomOpDef:
        _operations[name] = made = CustomOpDef(name, function)
        return made

    return define if fn is None else define(fn)


def register_fake(op: str | CustomOpDef, func: Callable[..., Any] | None = None, /, **_: Any) -> Any:
    """Accept an operation's shape function; also a decorator."""
    found = _find(op)
    return found.register_fake if func is None else found.register_fake(func)


def register_kernel(op: str | CustomOpDef, device_types: Any, func: Callable[..., Any] | None = None, /) -> Any:
    """Replace an operation's function; also a decorator."""
    return _find(op).register_kernel(device_types, func)


def register_autograd(
    op: str | CustomOpDef, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, **_: Any
) -> None:
    """Register an operation's gradient, as :meth:`CustomOpDef.register_autograd`."""
    _find(op).register_autograd(backward, setup_context=setup_context)


class AtenOperation:
    """One of PyTorch's own operations under ``torch.ops.aten``; each of its overloads is the one function."""

    def __init__(self, name: str, function: Callable[..., Any], overload: str = "") -> None:
        self.__name__ = name
        self._function, self._overload = function, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> AtenOperation:
        if overload.startswith("_") or self._overload:
            raise AttributeError(overload)
        # Kept, because programs use operations as keys.
        made = self.__dict__[overload] = AtenOperation(self.__name__, self._function, overload)
        return made

    def __repr__(self) -> str:
        return f"aten.{self.__name__}" + (f".{self._overload}" if self._overload else "")


def _slice(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Return the view ``input[start:end:step]`` along a dimension."""
    dim += input.ndim if dim < 0 else 0
    return input[(slice(None),) * dim + (slice(start, end, step),)]


@functools.cache
def _aten(name: str) -> AtenOperation:
    """Return an operation of ``torch.ops.aten``: a function or method of the same name that this library has.

    Raises:
        AttributeError: there is none.
    """
    from webgpu_torch_nn.functional import native

    import webgpu_torch
    from webgpu_torch.nn import functional

    if name == "slice":
        return AtenOperation(name, _slice)
    for place in (webgpu_torch, native, webgpu_torch.Tensor, functional):
        found = getattr(place, name, None)
        if callable(found) and not isinstance(found, type):
            return AtenOperation(name, found)
    raise AttributeError(f"'torch.ops.aten' has no operation '{name}'")


class Namespace:
    """``torch.ops`` and its namespaces: custom operations, and PyTorch's own under ``aten``, as attributes."""

    def __init__(self, path: str = "") -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self._path:
            return Namespace(name)
        if self._path == "aten" and f"aten::{name}" not in _operations:
            return _aten(name)
        if f"{self._path}::{name}" not in _operations:
            raise AttributeError(f"'torch.ops.{self._path}' has no operation '{name}'")
        return _operations[f"{self._path}::{name}"]


ops = Namespace()
