"""What libraries take from PyTorch's compiler of scripts: marks that leave functions as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .jit import Final as Final
from .jit import _overload as _overload
from .jit import _overload_method as _overload_method
from .jit import annotate as annotate
from .jit import is_scripting as is_scripting

Marked = TypeVar("Marked")
Item = TypeVar("Item")


def _copy_to_script_wrapper(fn: Marked) -> Marked:
    """Return the function."""
    return fn


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Marked], if_false: Callable[..., Marked],
    module_name: str | None = None, func_name: str | None = None,
) -> Callable[..., Marked]:  # fmt: skip
    """Return a function that is one of two, by the truth of one of its arguments."""

    def chosen(*args: object, **kwargs: object) -> Marked:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__doc__ = (
        (if_true.__doc__ or if_false.__doc__) if if_true.__doc__ is None or if_false.__doc__ is None else None
    )
    chosen.__name__ = func_name or chosen.__name__
    chosen.__module__ = module_name or chosen.__module__
    return chosen


class BroadcastingListCls(Generic[Item]):
    """An annotation: a list, or one value for all of it."""

    def __getitem__(self, types: object) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingListCls()
