"""The ``*_copy`` functions: what a view shows, in memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.registry import OPERATIONS, operation
from ...dispatch.titles import retitled
from ...tensors.memory_formats import contiguous_format
from ...tensors.tensor import Tensor
from ..complex.views import view_as_complex, view_as_real
from ..outputs import into

#: functions of torch whose result is a view
_FUNCTIONS = (
    "as_strided", "diagonal", "permute", "squeeze", "t", "transpose", "unsqueeze", "unbind", "narrow", "split_with_sizes", "expand",
    "view", "unfold", "detach", "view_as_real", "view_as_complex", "slice", "alias",
    "select", "split",
)  # fmt: skip

#: those of them that a tensor has no method of
_NO_METHODS: dict[str, Callable[..., Any]] = {"view_as_real": view_as_real, "view_as_complex": view_as_complex}


def _copied(name: str, source: Callable[..., Any]) -> None:
    def function(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        found: Any = source(input, *args, **kwargs)
        many = isinstance(found, tuple | list)
        copies = tuple(_copy(each, name) for each in found) if many else _copy(found, name)
        return into(copies, out, True)

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"A copy of what ``{name}`` shows."
    operation("composite", method=name == "narrow")(function)


_NODES = {"narrow": "NarrowCopyBackward0", "alias": "AliasBackward0_copy"}


def _copy(shown: Tensor, name: str) -> Tensor:
    copy = shown.clone(memory_format=contiguous_format)
    if shown.grad_fn is None:
        return copy
    # A part is taken with a step, or a view is of the same shape, as PyTorch's functions for these are not.
    return retitled(copy, _NODES.get(name, f"{shown.grad_fn.name()}_copy"))


def _view_of(name: str) -> Callable[..., Any]:
    if name == "alias":
        return lambda input: input.view(input.shape) if input._layout.is_contiguous else input
    if name == "view":
        return _viewed
    if name == "slice":
        return _slice
    if name in _NO_METHODS:
        return _NO_METHODS[name]
    return lambda input, *args, **kwargs: getattr(Tensor, name)(input, *args, **kwargs)


def _viewed(input: Tensor, *args: object, **kwargs: object) -> Tensor:
    try:
        return input.view(*args, **kwargs)  # type: ignore[arg-type]
    except RuntimeError:
        # What is copied anyway needs no view.
        return input.reshape(*args, **kwargs)  # type: ignore[arg-type]


def _slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    return input[(slice(None),) * (dim + input.ndim if dim < 0 else dim) + (slice(start, end, step),)]


for _name in _FUNCTIONS:
    if f"{_name}_copy" not in OPERATIONS:
        _copied(_name, _view_of(_name))
