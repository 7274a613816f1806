"""PyTorch's module names on this library's classes, for code that tells frameworks apart by ``str(type(x))``."""

from __future__ import annotations

from types import ModuleType

from webgpu_torch_core import Tensor
from webgpu_torch_nn import modules, parameter


def take_names(torch: ModuleType) -> None:
    """Let tensors, parameters and modules say that they come from ``torch``."""
    del torch
    Tensor.__module__ = "torch"
    for name, value in vars(parameter).items():
        if isinstance(value, type) and value.__module__ == parameter.__name__:
            value.__module__ = "torch.nn.parameter"
            del name
    for family in vars(modules).values():
        if not isinstance(family, ModuleType):
            continue
        for value in vars(family).values():
            if isinstance(value, type) and value.__module__ == family.__name__:
                value.__module__ = "torch.nn.modules." + family.__name__.rpartition(".")[2]
