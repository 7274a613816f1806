"""Reading files of ``torch.save`` that the program trusts: ``torch.load(path, weights_only=False)``.

Python's own unpickler reads them: it imports the modules that a file names and calls what the file says. Only tensors are made as
they are from any file (:mod:`~.pickle_format`); PyTorch's names lead to what this library has under them.
"""

from __future__ import annotations

import io
import pickle
import sys
from importlib import import_module
from types import ModuleType

from .pickle_machine import PLAIN, Builder, Global, is_known
from .pickle_objects import HOMES

#: what files name that has a plain meaning in Python
_PLAIN_MODULES = ("builtins", "collections", "_codecs")
_PLAIN_NAMES = ("torch.Tensor", "torch.Size", "torch.device", "torch.nn.parameter.Parameter")


class _Rebuilder(Global):
    """A function that files make tensors with."""

    __slots__ = ("_builder",)

    def __init__(self, module: str, name: str, builder: Builder) -> None:
        super().__init__(module, name)
        self._builder = builder

    def __call__(self, *arguments: object) -> object:
        return self._builder.call(self, arguments)


def read_trusted(data: memoryview, builder: Builder, pickle_module: ModuleType | None = None, **options: str) -> object:
    """Return the object of a pickle, running whatever it says.

    Args:
        data: the pickle.
        builder: makes storages and tensors.
        pickle_module: whose ``Unpickler`` reads it; Python's ``pickle`` if it is None.
        options: of the unpickler: ``encoding``, ``errors``.
    """
    unpickler: type[pickle.Unpickler] = (pickle_module or pickle).Unpickler

    class Reader(unpickler):
        def find_class(self, module: str, name: str) -> object:
            module = "builtins" if module == "__builtin__" else module
            path = f"{module}.{name}"
            if path in PLAIN:
                return PLAIN[path]
            if is_known(module, name) and module not in _PLAIN_MODULES and path not in _PLAIN_NAMES:
                return _Rebuilder(module, name, builder)
            if module == "torch" or module.startswith("torch."):
                return _own(module, name)
            return super().find_class(module, name)

        def persistent_load(self, pid: object) -> object:
            return builder.persistent(pid)

    return Reader(io.BytesIO(data), **options).load()  # type: ignore[arg-type]


def _own(module: str, name: str) -> object:
    """Return what this library has under a name of PyTorch's.

    Raises:
        AttributeError: nothing.
    """
    own = sys.modules.get("webgpu_torch")
    # Under the name `torch` this library finds every name of PyTorch's by itself.
    places = [module] if own is not None and sys.modules.get("torch") is own else []
    for ours, theirs in reversed(HOMES):
        if module == theirs or module.startswith(f"{theirs}."):
            places.append(ours + module[len(theirs) :])
    for place in places:
        try:
            found: object = import_module(place)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return found
    raise AttributeError(f"a file names {module}.{name}, which there is none of here")
