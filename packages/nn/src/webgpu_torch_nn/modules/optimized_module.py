"""A module around another whose calls are recorded once and replayed: what ``torch.compile(module)`` returns."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, TypeAlias

from webgpu_torch_nn.modules.module import Module

Value: TypeAlias = Any
#: what is the wrapper's own; every other attribute is the module's inside
_OWN = ("_orig_mod", "dynamo_ctx", "forward", "_super_module_initialized", "__dict__")


class OptimizedModule(Module):
    """The module ``_orig_mod`` with calls that are compiled; attributes are read from it and written to it.

    ``state_dict`` has the names of the original's with the prefix ``_orig_mod.``: save and load that of ``_orig_mod``.

    Args:
        mod: the module.
        dynamo_ctx: what compiles its call, as :func:`torch.compile` with its options does.
    """

    _orig_mod: Module
    dynamo_ctx: Callable[[Callable[..., object]], Callable[..., object]]
    _super_module_initialized: bool

    def __init__(self, mod: Module, dynamo_ctx: Callable[[Callable[..., object]], Callable[..., object]]) -> None:
        # Attributes are asked of it even while it is being made.
        self.__dict__.update(_orig_mod=mod, _super_module_initialized=False)
        super().__init__()
        del self.__dict__["_orig_mod"]
        self._super_module_initialized = True
        self._orig_mod = mod
        self.dynamo_ctx = dynamo_ctx
        self._initialize()

    def _initialize(self) -> None:
        self.__dict__["forward"] = self.dynamo_ctx(self._orig_mod.__call__)

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")

    def __bool__(self) -> bool:
        # Unless the original has a length.
        return bool(self._orig_mod)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the original is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if self._super_module_initialized:
            self._orig_mod.training = value

    def __getattr__(self, name: str) -> Value:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod":
            return modules[name]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Value) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *super().__dir__()})

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._orig_mod, self.dynamo_ctx)


def _optimized(self: Module, dynamo_ctx: Callable[[Callable[..., object]], Callable[..., object]]) -> OptimizedModule:
    """Return the module compiled; of one that is, its original."""
    return OptimizedModule(self._orig_mod if isinstance(self, OptimizedModule) else self, dynamo_ctx)


Module._optimized = _optimized  # type: ignore[attr-defined]

__all__ = ["OptimizedModule"]
