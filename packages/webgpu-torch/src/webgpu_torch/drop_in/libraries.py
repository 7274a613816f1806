"""What libraries keep by the type of a device and offer no way to add to: they learn of ``webgpu`` once imported."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .generation import capture_generation

OURS = "webgpu"


def _diffusers_torch_utils(module: ModuleType) -> None:
    """Compute in float32 what the library computes in float64 on devices that have it, such as rotary frequencies."""
    import webgpu_torch as torch

    table = getattr(module, "_DTYPE_UNSUPPORTED_DEVICES", None)
    if table is not None and torch.float64 in table:
        table[torch.float64] = frozenset({*table[torch.float64], OURS})


def _safetensors_torch(module: ModuleType) -> None:
    """Load files straight to a WebGPU device, whose name the reader, which is compiled, does not know."""
    original = module.load_file  # type: ignore[attr-defined]

    @functools.wraps(original)
    def load_file(filename: Any, device: Any = "cpu", *others: Any, **options: Any) -> dict[str, Any]:
        if str(device).partition(":")[0] != OURS:
            return original(filename, device, *others, **options)
        return {name: each.to(device) for name, each in original(filename, "cpu", *others, **options).items()}

    module.load_file = load_file  # type: ignore[attr-defined]


#: module -> what is changed in it as soon as it is imported
CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "diffusers.utils.torch_utils": _diffusers_torch_utils,
    "safetensors.torch": _safetensors_torch,
    "transformers.generation.utils": capture_generation,
}


class LibraryFinder(importlib.abc.MetaPathFinder):
    """Lets the other finders find the modules of :data:`CHANGES`, and changes them after they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module's own specification with a loader that changes it; None for all other modules."""
        if fullname not in CHANGES:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = ChangingLoader(spec.loader, CHANGES[fullname])
                return spec
        return None


class ChangingLoader(importlib.abc.Loader):
    """Loads as another loader does, and changes the module then."""

    def __init__(self, loader: Any, change: Callable[[ModuleType], None]) -> None:
        self.loader, self.change = loader, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Make the module as its own loader does."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code, give it its own loader back and change it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.change(module)


def attach_changes() -> None:
    """Change the listed modules that are imported from now on."""
    sys.meta_path.insert(0, LibraryFinder())
