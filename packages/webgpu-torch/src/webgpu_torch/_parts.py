"""Parts of PyTorch's API that are distributions of their own: loaded when they are first asked for."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ._submodules import offer


def part(module: str, extra: str) -> ModuleType:
    """Return a module of another distribution.

    Raises:
        ImportError: it is not installed; the message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        distribution = module.partition(".")[0]
        if error.name != distribution:
            raise
        name = distribution.replace("_", "-")
        text = f"{module} is part of {name}, which is not installed: pip install 'webgpu-torch[{extra}]'"
        raise ImportError(text, name=module) from error


def offer_part(module: str, name: str, extra: str) -> None:
    """Put a module of another distribution, and those inside of it, in the place of the façade's that is being loaded."""
    found = part(module, extra)
    for inside in pkgutil.walk_packages(getattr(found, "__path__", ()), f"{module}."):
        importlib.import_module(inside.name)
    sys.modules[name] = found
    offer(found, name)


def lazily(package: str, *names: str) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` that imports some of its modules when they are first asked for."""

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return importlib.import_module(f"{package}.{name}")
        except ImportError as error:
            raise AttributeError(str(error)) from error

    return __getattr__


def install_as_torch() -> None:
    """Make ``import torch`` resolve to this library: see :func:`webgpu_torch_drop_in.install_as_torch`.

    Raises:
        ImportError: webgpu-torch-drop-in is not installed.
        RuntimeError: PyTorch itself is already imported.
    """
    part("webgpu_torch_drop_in", "drop-in").install_as_torch()
