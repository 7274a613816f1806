"""The hook that makes ``import torch`` resolve to this library."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from webgpu_torch.version import __version__ as PYTORCH_VERSION

from . import functorch_twin, records, safetensors_twin, tokenizers_twin
from .completion import complete, complete_loaded, own_module, stub_module, take_homes

# Built against PyTorch's own libraries: importing one would end in a loader's error or load PyTorch itself.
BUILT_FOR_PYTORCH = (
    "bitsandbytes", "deepspeed", "fbgemm_gpu", "flash_attn", "flash_attn_3", "mamba_ssm", "causal_conv1d", "fla", "natten",
    "torchao", "torchaudio", "torchcodec", "torchdata", "torchtext", "transformer_engine", "xformers",
)  # fmt: skip


# Loaded by PyTorch's own ``import torch``: libraries look these up in ``sys.modules`` to patch them.
LOADED_WITH_TORCH = (
    "autograd", "cuda", "fft", "linalg", "nn", "nn.functional", "nn.init", "nn.modules", "nn.parameter", "nn.utils", "optim", "optim.lr_scheduler",
    "random", "utils", "utils.data",
)  # fmt: skip


class StandingDistribution(importlib.metadata.Distribution):
    """What ``importlib.metadata`` tells of a package that this library stands in for: the version whose API that is."""

    def __init__(self, package: str, version: str) -> None:
        self._package, self._version = package, version

    def read_text(self, filename: str) -> str | None:
        """Return the metadata file; there are no others."""
        if filename in ("METADATA", "PKG-INFO"):
            return f"Metadata-Version: 2.1\nName: {self._package}\nVersion: {self._version}\n"
        return f"{self._package}\n" if filename == "top_level.txt" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return where a file of the distribution would be."""
        return Path(__file__).parent / path


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch``, its submodules and ``functorch``: this library's own modules, else the recorded stubs."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load a module of ``torch``; None if it is neither ours nor recorded."""
        if fullname in functorch_twin.SOURCES:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        if records.record(fullname) is None and own_module(fullname) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Make a module of ``functorch``; leave the making of others to :meth:`exec_module`."""
        return functorch_twin.FunctorchModule(spec.name) if spec.name in functorch_twin.SOURCES else None

    def exec_module(self, module: ModuleType) -> None:
        """Put this library's module, or a stand-in, in the place of the new module."""
        name = module.__name__
        if name in functorch_twin.SOURCES:
            return
        found = own_module(name)
        if found is None:
            found = stub_module(name)
            found.__spec__ = module.__spec__
        elif not hasattr(found, "__path__"):
            # The import system asks a parent for its path; an empty one sends the search back to this finder.
            found.__path__ = []  # type: ignore[attr-defined]
        sys.modules[name] = complete(found, name)
        if name != "torch":
            take_homes()

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """Answer for the distributions that are stood in for, which some libraries ask for their versions."""
        twins = {"safetensors": safetensors_twin, "tokenizers": tokenizers_twin}
        brought = {name: twin.VERSION for name, twin in twins.items() if twin.is_brought()}
        for package, version in {"torch": PYTORCH_VERSION, **brought}.items():
            if context is None or context.name in (None, package):
                yield StandingDistribution(package, version)

    def invalidate_caches(self) -> None:
        """Do nothing: nothing is cached."""


def hide_distributions() -> None:
    """Let ``importlib.metadata`` say, too, that there is none of :data:`BUILT_FOR_PYTORCH`: libraries ask it and believe it."""
    finder = importlib.metadata.MetadataPathFinder
    found = finder.find_distributions

    def without(
        context: importlib.metadata.DistributionFinder.Context = importlib.metadata.DistributionFinder.Context(),
    ) -> Iterator[importlib.metadata.Distribution]:
        for each in found(context):
            # The name of its folder says the same as its metadata, which take a while to read where there are many.
            name = context.name or getattr(each, "_normalized_name", None) or each.name
            if name.lower().replace("-", "_") not in BUILT_FOR_PYTORCH:
                yield each

    finder.find_distributions = without  # type: ignore[method-assign]


def install() -> None:
    """See :func:`webgpu_torch.install_as_torch`."""
    import webgpu_torch

    loaded = sys.modules.get("torch")
    if loaded is webgpu_torch:
        return
    if loaded is not None:
        version, origin = getattr(loaded, "__version__", "unknown"), getattr(loaded, "__file__", "unknown")
        raise RuntimeError(
            f"PyTorch {version} is already imported (from {origin}): call webgpu_torch.install_as_torch() before "
            "anything imports torch, or run the program with: python -m webgpu_torch run SCRIPT"
        )
    sys.meta_path.insert(0, TorchFinder())
    for name in BUILT_FOR_PYTORCH:
        # The import system's own way of saying that there is none; libraries then do without.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    hide_distributions()
    # PyTorch's own module imports itself, and some programs reach it that way.
    webgpu_torch.torch = importlib.import_module("torch")  # type: ignore[attr-defined]
    for name in LOADED_WITH_TORCH:
        importlib.import_module(f"torch.{name}")
    complete_loaded()
    take_homes()
    from . import torchvision_operations
    from .class_names import take_names
    from .libraries import attach_changes
    from .processes import install_in_spawned

    webgpu_torch.ops.brought["torchvision/_C"] = torchvision_operations.register

    take_names()
    attach_changes()
    safetensors_twin.bring()
    tokenizers_twin.bring()
    install_in_spawned()
