"""Marks on what an export is to look into; exports here look into everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Marked = TypeVar("Marked", bound=Callable[..., Any])


def mark_subclass_constructor_exportable_experimental(constructor_subclass: Marked) -> Marked:
    """Return the constructor of a class of tensors.

    Raises:
        RuntimeError: a function of another name.
    """
    if getattr(constructor_subclass, "__name__", "") != "__init__":
        raise RuntimeError(
            "torch._export.wrappers.mark_constructor_exportable can only be applied on subclass tensor.__init__"
        )
    return constructor_subclass


def allow_in_pre_dispatch_graph(func: Marked) -> Marked:
    """Return a function that exports may keep as one operation."""
    return func
