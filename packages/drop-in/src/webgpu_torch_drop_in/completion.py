"""Modules that have every name of PyTorch's: what this library has, and for the rest what :mod:`.stubs` makes of its record."""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from types import ModuleType
from typing import Any

from webgpu_torch._ops import OpOverloadPacket
from webgpu_torch.library import Namespace

from . import records, stubs
from .records import Content

OURS = "webgpu_torch"
#: modules that were completed, and what PyTorch calls them, whose classes are still to say so
COMPLETED: list[tuple[ModuleType, str]] = []


class TorchModule(ModuleType):
    """A module of ``torch`` that is asked for a name it does not have."""

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_offered" in own:
            # What the module itself loads when it is first asked for it.
            try:
                found = own["_offered"](name)
            except AttributeError:
                pass
            else:
                path = own["_torch_paths"][0]
                if isinstance(found, ModuleType):
                    complete(found, f"{path}.{name}")
                    take_homes()
                _take_home(path, name, found)
                return found
        for path in own.get("_torch_paths", ()):
            found = made(path, name)
            if found is not None:
                return found.value
        raise AttributeError(f"module '{own.get('__name__')}' has no attribute '{name}'")

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds a submodule in its parent; a function of that name was taken out of it, and stays.
        known = self.__dict__.get(name)
        if isinstance(value, ModuleType) and callable(known) and value.__name__.rpartition(".")[2] == name:
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        known = set(super().__dir__())
        for path in self.__dict__.get("_torch_paths", ()):
            known |= records.record(path).kinds.keys()  # type: ignore[union-attr]
        return sorted(known)


class Found:
    """A value that was found, which may be None."""

    def __init__(self, value: Any) -> None:
        self.value = value


def own_module(path: str) -> ModuleType | None:
    """Return this library's module of a name under ``torch``: one of the façade, or one that it re-exports."""
    ours = OURS + path.removeprefix("torch")
    try:
        return importlib.import_module(ours)
    except ModuleNotFoundError as error:
        if error.name is None or not (ours == error.name or ours.startswith(f"{error.name}.")):
            raise
    found: Any = sys.modules[OURS]
    for part in path.split(".")[1:]:
        found = vars(found).get(part) if isinstance(found, ModuleType) else None
    return found if isinstance(found, ModuleType) and not is_stub_module(found) else None


def is_stub_module(module: ModuleType) -> bool:
    """Return whether all that a module has is made of its record."""
    return bool(vars(module).get("_is_stub_module"))


def stub_module(path: str) -> ModuleType:
    """Return a module all of whose names are made of its record."""
    module = TorchModule(path, f"Stands for PyTorch's ``{path}``, which this library does not have.")
    module.__dict__.update(_torch_paths=(path,), _is_stub_module=True, __path__=[])
    return module


def complete(module: ModuleType, path: str) -> ModuleType:
    """Let one of this library's modules have all names of PyTorch's, and its classes all members."""
    record = records.record(path)
    own = module.__dict__
    if record is None or path in own.get("_torch_paths", ()):
        return module
    if not isinstance(module, TorchModule):
        offered = own.pop("__getattr__", None)
        if offered is not None:
            own["_offered"] = offered
        kind = type(module)
        # What assignment to a module's names does is the module's own business.
        module.__class__ = TorchModule if kind is ModuleType else type(kind.__name__, (TorchModule, kind), {})
    own["_torch_paths"] = (*own.get("_torch_paths", ()), path)
    COMPLETED.append((module, path))
    if record.listed is not None:
        own.setdefault("__all__", record.listed)
    for name, content in record.classes.items():
        ours = own.get(name)
        if isinstance(ours, type) and not stubs.is_stub(ours):
            complete_class(ours, f"{path}.{name}", content)
    # A part of the library that is loaded when it is first asked for brings the modules inside of it.
    for name, inside in list(own.items()):
        if isinstance(inside, ModuleType) and inside.__name__ == f"{module.__name__}.{name}":
            complete(inside, f"{path}.{name}")
    return module


def complete_loaded() -> None:
    """Complete all modules of this library that are loaded under the façade's name; they say that they are ``torch``'s."""
    for name, module in list(sys.modules.items()):
        if name == OURS or name.startswith(f"{OURS}."):
            complete(module, "torch" + name.removeprefix(OURS))
            if vars(module)["__name__"] == name:
                module.__name__ = "torch" + name.removeprefix(OURS)
    ops: Any = sys.modules[OURS].ops  # type: ignore[attr-defined]
    ops.kind = CompleteNamespace


class CompleteNamespace(Namespace):
    """A namespace of ``torch.ops`` with all operations of PyTorch's: those that are not here raise when they are called."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name not in records.operations(self._path):
                raise
            return missing_operation(self._path, name)


@functools.cache
def missing_operation(namespace: str, name: str) -> OpOverloadPacket:
    """Return what stands for an operation of ``torch.ops`` that is not here."""
    return OpOverloadPacket(name, stubs.function(f"torch.ops.{namespace}.{name}"), namespace)


def complete_class(ours: type, path: str, content: Content) -> None:
    """Let a class have the members that PyTorch's has, those of bases that are not here included."""
    members = dict.fromkeys(content.get("f", "").split(), stubs.function)
    members |= dict.fromkeys(content.get("p", "").split(), stubs.MissingAttribute)  # type: ignore[arg-type]
    for name, stand_in in members.items():
        if not hasattr(ours, name):
            try:
                setattr(ours, name, stand_in(f"{path}.{name}"))
            except TypeError:
                return  # One of Python's own classes serves here.
    for base in content.get("bases", ()):
        module, _, name = base.partition(":")
        record = records.record(module)
        if record is not None and name in record.classes and real(module, name) is None:
            stubs.ADOPTED[f"{module}.{name}"].append(ours)
            complete_class(ours, path, record.classes[name])


def real(path: str, name: str) -> Found | None:
    """Return what this library itself has under a name; None if it has nothing there."""
    module = own_module(path)
    if module is None or name not in vars(module):
        return None
    return None if stubs.is_stub(vars(module)[name]) else Found(vars(module)[name])


@functools.cache
def made(path: str, name: str) -> Found | None:
    """Return what stands for a name of PyTorch's that a module lacks; None if PyTorch does not have it either."""
    record = records.record(path)
    if record is None:
        return None
    if name == "__all__" and record.listed is not None:
        return Found(record.listed)
    what = record.kinds.get(name)
    if what is None:
        return None
    if what == "m":
        return _elsewhere(f"{path}.{name}")
    if what == "@":
        place = record.borrowed[name]
        source = place.partition(":")[0]
        if source != path and sys.modules.get(source) is not None and sys.modules[source] is sys.modules.get(path):
            # One module by two names: its other record tells what is missing.
            return None
        found = _elsewhere(place)
        # What is borrowed from where it is not recorded, such as a private helper, is a stand-in of its own.
        lost = found is None and place.startswith("torch") and ":" in place
        return Found(stubs.StubObject(f"{path}.{name}")) if lost else found
    if what == "=":
        return Found(record.constants[name])
    if what == "l":
        return Found(logging.getLogger(path))
    if name in record.public:
        known = real(record.public[name], name)
        if known is not None:
            return known
    if what == "c":
        return Found(stubs.kind(f"{path}.{name}", record.classes[name], _bases(record.classes[name])))
    return Found(stubs.function(f"{path}.{name}") if what == "f" else stubs.StubObject(f"{path}.{name}"))


def _bases(content: Content) -> tuple[type, ...]:
    found = [_elsewhere(place) for place in content.get("bases", ())]
    return tuple(each.value for each in found if each is not None and isinstance(each.value, type))


def _elsewhere(place: str) -> Found | None:
    """Return what is at a place ``module:name``, or a module; None where that is not installed."""
    path, _, name = place.partition(":")
    try:
        value: Any = importlib.import_module(path)
    except ImportError:
        # Not a module here, such as ``torch.ops``, or not installed.
        parent, _, last = path.rpartition(".")
        value = vars(sys.modules[parent]).get(last) if parent in sys.modules else None
    for part in name.split(".") if name else ():
        value = getattr(value, part, None)
    return None if value is None else Found(value)


def take_homes() -> None:
    """Let the classes of modules that were completed since the last call say the modules and names that PyTorch has for them."""
    while COMPLETED:
        module, path = COMPLETED.pop()
        for name, value in list(vars(module).items()):
            _take_home(path, name, value)


def _take_home(path: str, name: str, value: object) -> None:
    if isinstance(value, type) and name == value.__name__ and value.__module__.startswith(OURS):
        home = _home(path, name)
        if home is not None:
            _move(value, *home)


def _home(path: str, name: str) -> tuple[str, str] | None:
    """Return the module that defines what another has under a name, and its name there; None where that is not recorded."""
    record = records.record(path)
    while record is not None and name not in record.classes:
        source, _, other = record.borrowed.get(name, "").partition(":")
        if not other or (source, other) == (path, name):
            return None
        path, name = source, other
        record = records.record(path)
    return None if record is None else (path, name)


def _move(kind: type, path: str, name: str) -> None:
    # Whoever looks up a class's module, such as typing.get_type_hints or pickle, must find it loaded, and the class in it.
    module = importlib.import_module(path)
    known = vars(module).get(name)
    if known is None or stubs.is_stub(known):
        setattr(module, name, kind)
    elif known is not kind:
        return
    try:
        kind.__module__, kind.__name__, kind.__qualname__ = path, name, name
    except TypeError:
        return  # One of Python's own classes serves here.
