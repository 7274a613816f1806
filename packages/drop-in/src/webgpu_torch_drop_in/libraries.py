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
SOFTWARE_ADAPTERS = ("llvmpipe", "lavapipe", "swiftshader", "basic render")


def preferred_device() -> str:
    """Return ``WEBGPU_TORCH_DEVICE``, else ``webgpu`` where the adapter is a real GPU, else ``cpu``."""
    from webgpu_torch_core import webgpu
    from webgpu_torch_core.config import DEVICE

    named = DEVICE.text()
    if named:
        return named
    real = webgpu.is_available() and not any(each in webgpu.get_device_name().lower() for each in SOFTWARE_ADAPTERS)
    return OURS if real else "cpu"


def _diffusers_torch_utils(module: ModuleType) -> None:
    """Compute in float32 what the library computes in float64 on devices that have it, such as rotary frequencies."""
    import webgpu_torch as torch

    table = getattr(module, "_DTYPE_UNSUPPORTED_DEVICES", None)
    if table is not None and torch.float64 in table:
        table[torch.float64] = frozenset({*table[torch.float64], OURS})


def _safetensors(module: ModuleType) -> None:
    """Open files for a WebGPU device, whose name the reader, which is compiled, does not know."""
    original = module.safe_open  # type: ignore[attr-defined]

    @functools.wraps(original, updated=())
    def safe_open(filename: Any, framework: str, device: Any = "cpu", *others: Any, **options: Any) -> Any:
        if str(device).partition(":")[0] != OURS:
            return original(filename, framework, device, *others, **options)
        return OpenFile(original(filename, framework, "cpu", *others, **options), device)

    module.safe_open = safe_open  # type: ignore[attr-defined]


class _Slice:
    """A tensor in a file, whose parts are taken to a device when they are read."""

    def __init__(self, part: Any, device: Any) -> None:
        self._part, self._device = part, device

    def __getitem__(self, index: Any) -> Any:
        return self._part[index].to(self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class OpenFile:
    """A safetensors file whose tensors go to a device that the reader does not know."""

    def __init__(self, file: Any, device: Any) -> None:
        self._file, self._device = file, device

    def __enter__(self) -> OpenFile:
        self._file.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._file.__exit__(*problem)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def get_tensor(self, name: str) -> Any:
        """Return a tensor on the device."""
        return self._file.get_tensor(name).to(self._device)

    def get_tensors(self) -> dict[str, Any]:
        """Return all tensors on the device."""
        return {name: each.to(self._device) for name, each in self._file.get_tensors().items()}

    def get_slice(self, name: str) -> _Slice:
        """Return something to index, which reads a part of a tensor to the device."""
        return _Slice(self._file.get_slice(name), self._device)


def _accelerate_state(module: ModuleType) -> None:
    """Train where :func:`preferred_device` says, as on GPUs that the library knows."""
    import webgpu_torch as torch

    module.PartialState.default_device = property(  # type: ignore[attr-defined]
        lambda self: torch.device(preferred_device())
    )


def _transformers_modeling_utils(module: ModuleType) -> None:
    """Offer ``attn_implementation="webgpu_torch"``."""
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    from .attention import attend

    module.AttentionInterface.register("webgpu_torch", attend)  # type: ignore[attr-defined]
    AttentionMaskInterface.register("webgpu_torch", sdpa_mask)


#: module -> what is changed in it as soon as it is imported
CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "accelerate.state": _accelerate_state,
    "diffusers.utils.torch_utils": _diffusers_torch_utils,
    "safetensors": _safetensors,
    "transformers.generation.utils": capture_generation,
    "transformers.modeling_utils": _transformers_modeling_utils,
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
    """Change the listed modules: those that are imported already, and the others from now on."""
    for name in CHANGES.keys() & sys.modules.keys():
        CHANGES[name](sys.modules[name])
    sys.meta_path.insert(0, LibraryFinder())
