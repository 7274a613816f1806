"""PyTorch's module names on this library's classes, for code that tells frameworks apart by ``str(type(x))``."""

from __future__ import annotations

import importlib
from types import ModuleType

from webgpu_torch_core import Tensor
from webgpu_torch_nn import modules, parameter


def take_names() -> None:
    """Let tensors, parameters and modules say that they come from ``torch``."""
    Tensor.__module__ = "torch"
    _rename_classes(parameter, "torch.nn.parameter")
    for family in list(vars(modules).values()):
        if isinstance(family, ModuleType):
            _rename_classes(family, "torch.nn.modules." + family.__name__.rpartition(".")[2])


def _rename_classes(module: ModuleType, name: str) -> None:
    # Whoever looks up a class's module, such as typing.get_type_hints or pickle, must find it loaded.
    importlib.import_module(name)
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            value.__module__ = name
