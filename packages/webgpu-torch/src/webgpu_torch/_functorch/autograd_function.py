"""What rules of custom functions are given in the place of their context."""

from __future__ import annotations

from typing import Any, TypeAlias

Context: TypeAlias = Any
_OWN = ("_pt_inner_ctx", "_pt_new_saved_tensors")


class CtxWithSavedTensors:
    """A context as another one is, but for its ``saved_tensors``.

    Args:
        ctx: the other one; attributes are read from it, and set on it.
        new_saved_tensors: what takes the place of its ``saved_tensors``.

    Raises:
        RuntimeError: the other one has attributes of the names that are needed here.
    """

    def __init__(self, ctx: Context, new_saved_tensors: Context) -> None:
        if type(ctx) is not CtxWithSavedTensors and any(hasattr(ctx, each) for each in _OWN):
            raise RuntimeError(f"name collision: the context has an attribute of one of the names {_OWN}")
        vars(self).update(zip(_OWN, (ctx, new_saved_tensors), strict=True))

    @property
    def saved_tensors(self) -> Context:
        """What was given."""
        return vars(self)["_pt_new_saved_tensors"]

    def __getattr__(self, name: str) -> Context:
        return getattr(vars(self)["_pt_inner_ctx"], name)

    def __setattr__(self, name: str, value: Context) -> None:
        setattr(vars(self)["_pt_inner_ctx"], name, value)
