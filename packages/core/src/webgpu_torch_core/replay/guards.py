"""What a compiled function depends on besides tensors' elements: its arguments, and all that its code can reach.

A description is a key, equal for equal states, and the tensors met on the way: they are sources and targets of recordings
by their position. What the code reaches (variables of enclosing functions, globals, modules and their attributes,
optimisers) is looked at again when the counter of changes has moved, or when a variable, list, dictionary or object
that was met has other contents.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import types
import weakref
from collections.abc import Iterator
from functools import lru_cache, partial
from inspect import getattr_static
from typing import Any

from .. import config
from ..dispatch.overrides import intercepted
from ..record.changes import Hooks, hooks_of_all, structure, watched
from ..record.context import context, default_float
from ..record.devices import get_default_device
from ..record.node import anomaly
from ..tensors.tensor import Tensor
from .lately import Lately
from .observed import Observed

#: most objects that are looked at: more than that is data, not what a computation depends on
_LIMIT = 200_000
#: the most bytes of an array of NumPy's that are compared at every call
_LARGEST_ARRAY = 1 << 20
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented)))
#: of no effect on what a module computes
_IDLE = frozenset(
    (
        "_load_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_non_persistent_buffers_set", "_state_dict_hooks",
        "_state_dict_pre_hooks",
    )
)  # fmt: skip
#: what is called where an object is made
_MAKING = ("__init__", "__new__")
_METHODS = (types.FunctionType, property, classmethod, staticmethod)
_OWN = ("webgpu_torch", "torch")
_INSTALLED = tuple(
    {os.path.normpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


class Same:
    """Stands for an object in a key: equal to itself only, and keeps it from being replaced by another at its address."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Description:
    """The key of some values, and what was met in them.

    Attributes:
        tensors: in the order met.
        objects: opened objects in the order met; ``numbers`` are their places by identity.
        unseen: why what was met has no replays, or None: it cannot be looked into, or does what no replay would do.
        roots: modules, functions and optimisers, where they are not to be opened.
        hooks: the numbers of handles -> in the order met.
        holders: dictionaries with numbers that replays read again, in the order met.
        lately: what was described before, if it may come again.
        notes: whether contents are observed.
        began: how many objects were met before the one that ``lately`` asks about.
        fixed: whether one was met there that stands for itself, whatever it holds, or that was met before.
    """

    def __init__(self, opens: bool, lately: Lately | None = None) -> None:
        self.opens = self.notes = opens
        self.lately = lately
        self.began, self.fixed = 0, False
        self.tensors: list[Tensor] = []
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.unseen: str | None = None
        self.places: dict[int, int] = {}
        # What the program's code names: other attributes of its objects do not matter.
        self.names: set[str] = set()
        self.roots: list[Any] = []
        self.hooks: dict[int, int] = {}
        self.holders: list[dict[str, object]] = []
        self.observed = Observed()
        self.members: set[tuple[int, str]] = set()

    def of(self, value: Any) -> Any:
        """Return a hashable description of a value."""
        kind = value.__class__
        if kind in _PLAIN:
            return kind, value
        if isinstance(value, Tensor):
            return self._of_tensor(value)
        if kind is tuple:
            return (tuple, *[self.of(each) for each in value])
        number = self._met(value)
        if number is None:
            return self._of_object(value, kind)
        if number < self.began:
            self.fixed = True
        return "again", number

    def _of_tensor(self, tensor: Tensor) -> Any:
        self.tensors.append(tensor)
        key = tensor_key(tensor)
        # Backward passes run a leaf's hooks; programs give tensors attributes.
        node = tensor._accumulator and tensor._accumulator()
        own = (tensor._hooks, tensor.__dict__, node and node.hooks, node and node.node_pre_hooks)
        return (*key, *[self.of(each or None) for each in own]) if any(own) else key

    def _met(self, value: Any) -> int | None:
        """Return an object's number if it was met before."""
        number = self.numbers.setdefault(id(value), len(self.objects))
        if number < len(self.objects):
            return number
        self.objects.append(value)
        if number == _LIMIT:
            self.unseen = "it depends on more objects than can be compared"
        return None

    def _of_object(self, value: Any, kind: Any) -> Any:
        known = None if self.lately is None else self.lately.again(self, value)
        if known is not None:
            return known
        if isinstance(value, list | tuple):
            self._note(value)
            return (kind, *[self.of(each) for each in value])
        if kind is Hooks:
            # Which of them get keyword arguments, or are always called, other dictionaries say by the same numbers.
            numbers = [self.hooks.setdefault(each, len(self.hooks)) for each in value]
            return (kind, *zip(numbers, map(self.of, value.values()), strict=True))
        if isinstance(value, dict):
            self._note(value)
            return (kind, *[(self.of(key), self.of(each)) for key, each in value.items()])
        describe = getattr(kind, "_describe_for_recording", None)
        if (
            describe is not None
            or isinstance(value, types.FunctionType | types.MethodType | partial)
            or is_module(value)
        ):
            if not self.opens:
                self.roots.append(value)
                return Same(value)
            return describe(value, self) if describe is not None else self._of_code(value)
        if isinstance(value, set | frozenset):
            self._note(value)
            return kind, frozenset(map(self.of, value))
        if kind.__hash__ not in (object.__hash__, None) or isinstance(value, type):
            return kind, value
        if isinstance(value, types.ModuleType | types.BuiltinFunctionType) or getattr(
            kind, "_same_in_recordings", False
        ):
            return self._itself(value)
        if self.lately is None:
            return self._of_stranger(value, kind)
        return self.lately.of(self, value, partial(self._of_stranger, value, kind))

    def _itself(self, value: object) -> Same:
        self.fixed = True
        return Same(value)

    def _of_stranger(self, value: Any, kind: Any) -> Any:
        """Describe an object without a value of its own, by its attributes."""
        nature = _nature(kind)
        if nature == "array":
            if value.nbytes > _LARGEST_ARRAY:
                self.unseen = (
                    f"it depends on an array of {value.nbytes} bytes, which are too many to be compared at every call"
                )
                return None
            return kind, value.dtype.str, value.shape, self.observed.array(value)
        if nature == "advancing":
            self.unseen = f"it depends on a {kind.__name__}, whose state is not known"
            return None
        if nature == "standard":
            return self._itself(value)
        attributes = getattr(value, "__dict__", None)
        if attributes is None:
            slots = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
            if not slots and kind.__hash__ is not None:
                return self._itself(value)
            if not slots:
                self.unseen = f"it depends on a {kind.__name__}, which cannot be compared"
                return None
            known = [(name, *self.observed.attribute(value, name)) for name in slots]
            return (kind, *[(name, self.of(each)) for name, there, each in known if there])
        if not self.opens or is_installed(getattr(sys.modules.get(kind.__module__), "__file__", None) or ""):
            self._note(attributes)
            return (kind, *[(name, self.of(each)) for name, each in attributes.items()])
        members = dir_of(kind)
        called = (self.names & members) | _special(kind).difference(_MAKING)
        methods = [self._of_attribute(kind, name) for name in sorted(called)]
        found = [(name, each) for name, each in attributes.items() if name in self.names]
        for name, each in found:
            self.observed.variable(attributes, name, each)
        self.observed.size(attributes)
        return (kind, *methods, *[(name, self.of(each)) for name, each in found])

    def _note(self, container: Any) -> None:
        if self.notes:
            self.observed.container(container)

    # Code

    def _of_code(self, value: Any) -> Any:
        if isinstance(value, types.MethodType):
            owner = value.__self__.__class__
            return "method", self.function(value.__func__, owner), self.of(value.__self__)
        if isinstance(value, partial):
            return "partial", self.of(value.func), self.of(value.args), self.of(value.keywords)
        if isinstance(value, types.FunctionType):
            return self.function(value, None)
        return self._of_module(value)

    def _of_module(self, module: Any) -> Any:
        """Describe a module of a network by its class, mode, attributes, hooks, parameters, buffers and submodules."""
        own = module.__dict__
        found: list[Any] = [module.__class__]
        for name, value in own.items():
            if name in _IDLE or (value.__class__ is Hooks and not value):
                continue
            if name in ("_parameters", "_buffers", "_modules"):
                found.append((name, *[(key, self.of(each)) for key, each in value.items()]))
            else:
                found.append((name, self.of(value)))
        found.append(self._of_methods(module.__class__, "forward"))
        return tuple(found)

    def _of_methods(self, owner: type, name: str) -> Any:
        function = self._member(owner, name)
        function = getattr(function, "__func__", getattr(function, "fget", function))
        if not isinstance(function, types.FunctionType) or is_library(function):
            return name
        return Same(function) if self._met(function) is not None else self.function(function, owner)

    def function(self, function: Any, owner: type | None) -> Any:
        """Describe a function by its code, defaults, and the variables that its code names."""
        if not isinstance(function, types.FunctionType) or is_library(function):
            return Same(function)
        names = dict.fromkeys(_names(function.__code__))
        self.names.update(names)
        if "print" in names and "print" not in function.__globals__:
            self.unseen = self.unseen or "it prints"
        found: list[Any] = [function.__code__, self.of(function.__defaults__), self.of(function.__kwdefaults__)]
        found.append(self.of(function.__dict__))
        if not {"environ", "getenv"}.isdisjoint(names):
            found.append(self.of(config.environment()))
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self.observed.attribute(function, name)
        for cell in function.__closure__ or ():
            try:
                value = self.observed.cell(cell)
            except ValueError:
                # The variable has no value (yet).
                found.append("empty")
                continue
            found.append(self.of(value))
        scope = function.__globals__
        for name in names:
            if name in scope:
                found.append((name, self._of_global(scope, name, names)))
            if owner is not None and name in dir_of(owner):
                found.append((name, self._of_attribute(owner, name)))
        return tuple(found)

    def _of_global(self, scope: Any, name: str, names: Any) -> Any:
        value = scope[name]
        self.observed.variable(scope, name, value)
        if not isinstance(value, types.ModuleType | type):
            return self.of(value)
        home = value if isinstance(value, types.ModuleType) else sys.modules.get(value.__module__)
        # A notebook's classes, and those of code that is executed, have no file.
        file = getattr(home, "__file__", None) or ""
        library = _root(value) in _OWN or is_standard(value) or is_installed(file)
        # What the code may name of it.
        found: list[Any] = [Same(value)]
        own = vars(value)
        if isinstance(value, type) and not library:
            # Making an object, and with, for and operators on one, call what no code names.
            own = dir_of(value)
            names = [*names, *sorted(_special(value).difference(names))]
        for each in names:
            if (id(value), each) in self.members or each not in own:
                continue
            self.members.add((id(value), each))
            if isinstance(value, type):
                found.append((each, Same(self._member(value, each)) if library else self._of_attribute(value, each)))
            elif library and not isinstance(vars(value)[each], types.ModuleType):
                found.append((each, Same(self._member(value, each))))
            else:
                found.append((each, self._of_global(vars(value), each, names)))
        return tuple(found)

    def _of_attribute(self, owner: type, name: str) -> Any:
        value = self._member(owner, name)
        # What a class has besides methods is there for all of its objects: lists, tensors, settings.
        return self._of_methods(owner, name) if isinstance(value, _METHODS) else self.of(value)

    def _member(self, owner: type | types.ModuleType, name: str) -> object:
        """Return what a class or module has by a name, which may be replaced."""
        for each in owner.__mro__ if isinstance(owner, type) else (owner,):
            if name in each.__dict__:
                value = each.__dict__[name]
                if (id(each), "." + name) not in self.members:
                    self.members.add((id(each), "." + name))
                    self.observed.variable(each.__dict__, name, value)
                return value
        return None


def tensor_key(tensor: Any) -> Any:
    """Return what operations ask of a tensor besides its elements."""
    place, node, base = tensor.device, tensor._grad_fn, tensor._base
    tracked = tensor._requires_grad or node is not None or (base is not None and base.requires_grad)
    return (
        tensor.__class__, tensor._layout, tensor.dtype, place.type, place.index, tracked, node is None, tensor._storage.inference,
    )  # fmt: skip


def is_module(value: Any) -> bool:
    """Return whether an object is a module of a network."""
    attributes = getattr(value, "__dict__", None)
    return isinstance(attributes, dict) and "_parameters" in attributes and "_modules" in attributes


def is_installed(file: str) -> bool:
    """Return whether a file is part of Python or of an installed package."""
    return file.startswith(("<frozen", *_INSTALLED)) or "site-packages" in file or "dist-packages" in file


def is_standard(value: object) -> bool:
    """Return whether an object is of a module that comes with Python."""
    root = _root(value)
    return root != "__main__" and root in sys.stdlib_module_names


@lru_cache(maxsize=1024)
def _nature(kind: type) -> str:
    """Return what objects of a class without values of their own are, as far as their attributes do not tell."""
    if kind.__module__ == "numpy" and hasattr(kind, "tobytes"):
        return "array"
    if hasattr(kind, "__next__") or kind.__name__ in ("Random", "RandomState", "bytearray", "deque"):
        return "advancing"
    # Locks, loggers, files: no part of what is computed.
    return "standard" if is_standard(kind) else ""


def is_library(function: Any) -> bool:
    """Return whether a function is no part of the program: its globals are not looked at."""
    return _root(function) in _OWN or is_installed(function.__code__.co_filename)


def _root(value: Any) -> str:
    name = getattr(value, "__module__", None) or getattr(value, "__name__", None) or ""
    root = name.partition(".")[0] if isinstance(name, str) else ""
    return "webgpu_torch" if root.startswith("webgpu_torch") else root


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the globals and attributes that code, and the functions in it, may name."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)
        elif isinstance(each, str) and each.isidentifier():
            yield each


def _special(owner: type) -> set[str]:
    """Return the names of those of a class's methods that Python itself calls."""
    return {
        name
        for name in dir_of(owner)
        if name.startswith("__") and name.endswith("__") and isinstance(getattr_static(owner, name), _METHODS)
    }


def dir_of(owner: type) -> set[str]:
    """Return the names of a class's attributes and methods, those of the library's and of object left out."""
    return {name for each in owner.__mro__ if _root(each) not in (*_OWN, "builtins") for name in each.__dict__}


class World:
    """What functions and modules can reach, described again when it may have changed.

    Attributes:
        token: stands for the present description; equal descriptions have the same one.
        unseen: why there are no replays, or None.
    """

    def __init__(self, *roots: Any) -> None:
        self.roots = roots
        self.tokens: dict[Any, object] = {}
        self.found: tuple[int, object, list[Any], Description] | None = None

    @property
    def holders(self) -> list[dict[str, object]]:
        """Dictionaries with numbers that replays read again."""
        return [] if self.found is None else self.found[3].holders

    def look(self, again: bool = False) -> tuple[object, list[Any], str | None, dict[int, int]]:
        """Return a token of what there is now, weak references to its tensors, what is unseen, and where each storage is first."""
        found = self.found
        if again or found is None or found[0] != structure.version or found[3].observed.moved():
            version = structure.version
            description = Description(opens=True)
            key = tuple([description.of(each) for each in (*self.roots, *filter(None, hooks_of_all))])
            if len(self.tokens) >= 256:
                self.tokens.clear()
            places: dict[int, int] = {}
            aliases = [places.setdefault(each._storage.number, at) for at, each in enumerate(description.tensors)]
            token = self.tokens.setdefault((key, tuple(aliases)), object())
            # Other memory of these tensors moves the counter: where each storage is first holds until then.
            description.places = places
            # A view's history is its base's.
            watched.update(map(id, description.tensors), [id(each._base) for each in description.tensors])
            references = [weakref.ref(each) for each in description.tensors]
            description.tensors, description.objects = [], []
            found = self.found = (version, token, references, description)
        return found[1], found[2], found[3].unseen, found[3].places


def ambient() -> Any:
    """Return what calls depend on besides arguments and what code can reach, or None where recordings would be wrong.

    That is where functions are intercepted: by modes, hooks of what is saved, inside of ``vmap``, and while another
    function is recorded.
    """
    if context.capture is not None or context.saved_hooks or intercepted() or anomaly.enabled:
        return None
    casting = tuple(sorted(context.casting.items())) if context.casting else None
    types_of_casting = (
        tuple(sorted((key, each.name) for key, each in context.casting_types.items())) if casting else None
    )
    return (
        context.enabled, context.inference, context.grad_asked, casting, types_of_casting, context.casting_cache if casting else None,
        get_default_device(), default_float[0],
    )  # fmt: skip
