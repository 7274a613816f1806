"""pytest plugin: ``torch`` is this library's drop-in; helpers of PyTorch's tests come from PyTorch's own distribution beside it.

Only ``torch.testing._internal`` and what it stands on are read from there. Nothing of PyTorch's compiled library is loaded.
"""

from __future__ import annotations

import contextlib
import enum
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

#: modules of PyTorch's distribution that are its tests' own
HELPERS = (
    "torch.testing._internal",
    "torch.testing._comparison",
    "torch.testing._creation",
    "torch.testing._utils",
    "torch._vendor",
    "torchgen",
)
_FOUND = importlib.util.find_spec("torch")
assert _FOUND is not None and _FOUND.origin is not None, (
    "PyTorch's distribution, which has its tests' helpers, is not installed"
)
WHEEL = Path(_FOUND.origin).parents[1]


class HelperFinder(importlib.abc.MetaPathFinder):
    """Finds the helpers of PyTorch's tests."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if not any(fullname == each or fullname.startswith(f"{each}.") for each in HELPERS):
            return None
        place = WHEEL.joinpath(*fullname.split("."))
        if place.with_suffix(".py").is_file():
            return importlib.util.spec_from_file_location(fullname, place.with_suffix(".py"))
        if (place / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(
                fullname, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        return None


class Nothing:
    """What a stand-in returns while files of tests are being loaded: false and empty; a decorator that changes nothing."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else self

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, item: object) -> Nothing:
        return self

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _loading() -> bool:
    """Return whether a file of tests, or a helper, is being loaded: what it makes ready may never be used."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(
            (str(WHEEL / "torch"), os.environ["TESTS"])
        ):
            return True
        frame = frame.f_back
    return False


def _lenient() -> None:
    """Let files of tests be loaded although they make ready what is not here; what a test then uses of it raises."""
    from webgpu_torch_drop_in import completion, stubs
    from webgpu_torch_drop_in.advice import advice

    found, object_found = completion.TorchModule.__getattr__, stubs.StubObject.__getattr__

    def attribute(module: completion.TorchModule, name: str) -> object:
        try:
            return found(module, name)
        except AttributeError:
            # One helper asks which there are.
            if name.startswith("__") or sys._getframe(1).f_code.co_name == "get_foreach_method_names" or not _loading():
                raise
            return Nothing()

    def attribute_of_object(stand_in: stubs.StubObject, name: str) -> object:
        return Nothing() if not name.startswith("_") and _loading() else object_found(stand_in, name)

    def refuse(path: str) -> None:
        if not _loading():
            raise NotImplementedError(f"{path} is not part of webgpu-torch: {advice(path)}")

    completion.TorchModule.__getattr__ = attribute  # type: ignore[method-assign]
    stubs.StubObject.__getattr__ = attribute_of_object  # type: ignore[method-assign]
    stubs.StubObject.__iter__ = lambda self: iter(())  # type: ignore[attr-defined]
    stubs.NO_ANSWER = Nothing()
    stubs.refuse = refuse  # type: ignore[assignment]


def _exists(name: str) -> bool:
    """Return whether a module is installed."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


State = enum.Enum("_TorchFunctionState", ["ENABLED", "SUBCLASSES_DISABLED", "ALL_DISABLED"])
#: what the helpers ask PyTorch's compiled library, and its answers
ANSWERS: dict[str, object] = {
    "torch._C._get_cpu_capability": lambda: "DEFAULT",
    "torch._C._TorchFunctionState": State,
    "torch._C._get_torch_function_state": lambda: State.ENABLED,
    "torch._C._DisableFuncTorch": contextlib.nullcontext,
    "torch._C.has_lapack": True,
    "torch._C.has_spectral": True,
    "torch.utils._foreach_utils._get_foreach_kernels_supported_devices": lambda: ["cuda"],
    "torch.compiler.set_stance": lambda *_, **__: contextlib.nullcontext(),
    "torch._logging.scribe.open_source_signpost": lambda *_, **__: None,
    "torch.utils._import_utils._check_module_exists": _exists,
    "torch.utils._import_utils.import_dill": lambda: None,
    "torch.utils._triton.has_triton": lambda: False,
}


#: types that tests of other things name: they exist by name only
QUANTISED = ("quint8", "qint8", "qint32", "quint4x2", "quint2x4")


def _install() -> None:
    _lenient()
    import webgpu_torch

    webgpu_torch.install_as_torch()
    for name in QUANTISED:
        made = object.__new__(webgpu_torch.dtype)
        made.name = name
        setattr(webgpu_torch, name, made)
    sys.meta_path.insert(0, HelperFinder())
    for path, value in ANSWERS.items():
        owner, _, name = path.rpartition(".")
        setattr(importlib.import_module(owner), name, value)


_install()
