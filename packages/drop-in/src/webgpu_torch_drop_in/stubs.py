"""Stand-ins for what PyTorch has and this library does not: they can be imported, named, subclassed and asked about.

Calling or instantiating one raises. What a stand-in can be without standing for anything is real: enumerations have their
members, exceptions can be raised, named tuples made, a question whether something is available is answered no, and what takes
functions for an exporter or a compiler takes them.
"""

from __future__ import annotations

import collections
import enum
import functools
import re
import types
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from .advice import advice
from .records import Content

Members: TypeAlias = dict[str, Any]

#: questions about what is not here, and their answer
_ANSWERS: tuple[tuple[re.Pattern[str], object], ...] = (
    (re.compile(r"_?is_(\w+_)?(available|built|compiled|initialized)|_?is_in_bad_fork|_?has_triton\w*"), False),
    (re.compile(r"_?is_(fake|(\w+_)?tensor|(\w+_)?(tracing|exporting|mode|active))"), False),
    (re.compile(r"_?device_count"), 0),
    (re.compile(r"(_?detect|get|get_innermost|maybe_get)_(fake|proxy|functional)_mode|_get_tracing_state"), None),
)
NO_ANSWER = object()
#: what takes functions for an exporter or a compiler that is not here: it takes them, and nobody asks for them
_REGISTRARS = re.compile(
    r"torch\.(onnx|export|fx|jit|ao|_\w+)\b.*\.(_?(un)?register_(?!buffer|parameter|module|\w*hook)\w+|parse_args|quantized_args)"
    r"|torch\.distributed\.rpc\.api\._require_initialized"
)


class MissingAttributeError(NotImplementedError, AttributeError):
    """An attribute that PyTorch's class has and this library's has not: for ``hasattr`` it is not there."""


def refuse(path: str) -> NoReturn:
    """Raise.

    Raises:
        NotImplementedError: always; it says what to use instead.
    """
    raise NotImplementedError(f"{path} is not part of webgpu-torch: {advice(path)}")


def function(path: str) -> Callable[..., object]:
    """Return the stand-in for a function: a question whether something is available is answered, the rest raises."""
    module, _, name = path.rpartition(".")
    answer = next((answer for pattern, answer in _ANSWERS if pattern.fullmatch(name)), NO_ANSWER)

    def missing(*args: object, **kwargs: object) -> object:
        if answer is NO_ANSWER:
            refuse(path)
        return answer

    def taken(*args: object, **kwargs: object) -> object:
        # Called to decorate, or to make a decorator.
        return args[0] if len(args) == 1 and isinstance(args[0], types.FunctionType) else lambda marked=None: marked

    made = taken if _REGISTRARS.fullmatch(path) else missing
    made.__name__ = name
    made.__qualname__ = name
    made.__module__ = module
    made.__doc__ = f"Stands for PyTorch's ``{path}``, which this library does not have."
    made.is_stub = True  # type: ignore[attr-defined]
    return made


class MissingAttribute:
    """Stands for an attribute of a class; instances may have one of the name."""

    is_stub = True

    def __init__(self, path: str) -> None:
        self.path = path

    def __get__(self, instance: object, owner: type | None = None) -> MissingAttribute:
        if instance is None:
            return self
        raise MissingAttributeError(f"{self.path} is not part of webgpu-torch: {advice(self.path)}")


def kind(path: str, content: Content, bases: tuple[type, ...]) -> type:
    """Return the stand-in for a class.

    Args:
        path: module and name.
        content: what is recorded of the class.
        bases: the bases of PyTorch's class, as far as they are known.
    """
    module, _, name = path.rpartition(".")
    if "enum" in content:
        return _enumeration(module, name, content["enum"], bases)
    if "fields" in content:
        return collections.namedtuple(name, content["fields"], module=module)
    if any(issubclass(base, BaseException) for base in bases):
        return types.new_class(name, bases, {}, lambda members: members.update(__module__=module))
    members: dict[str, Any] = {"__module__": module, "is_stub": True, "__doc__": f"Stands for PyTorch's ``{path}``."}
    members |= {each: function(f"{path}.{each}") for each in content.get("f", "").split()}
    members |= {each: MissingAttribute(f"{path}.{each}") for each in content.get("p", "").split()}
    members |= {each: kind(f"{path}.{each}", inner, ()) for each, inner in content.get("c", {}).items()}
    return _made(path, members, bases)


#: this library's classes by the path of a stand-in that PyTorch's classes of their names derive from
ADOPTED: collections.defaultdict[str, list[type]] = collections.defaultdict(list)


class StandInType(type):
    """The type of stand-ins for classes: what derives from PyTorch's class counts, though here it does not derive from it."""

    path: str

    def _adopted(cls) -> tuple[type, ...]:
        return tuple(ADOPTED[cls.path]) if is_stub(cls) else ()

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls._adopted())

    def __subclasscheck__(cls, subclass: type) -> bool:
        return super().__subclasscheck__(subclass) or issubclass(subclass, cls._adopted())


@functools.cache
def _type_of_stand_ins(base: type[type]) -> type[type]:
    """Return a metaclass that goes with that of a base."""
    if issubclass(base, StandInType):
        return base
    return StandInType if issubclass(StandInType, base) else types.new_class("StandInType", (StandInType, base))


def _made(path: str, members: Members, bases: tuple[type, ...]) -> type:
    def make(cls: type, *args: object, **kwargs: object) -> object:
        if cls is result:
            refuse(path)
        inherited = super(result, cls).__new__  # type: ignore[misc]
        return inherited(cls) if inherited is object.__new__ else inherited(cls, *args, **kwargs)

    def begin(self: object, *args: object, **kwargs: object) -> None:
        refuse(path)

    members |= {
        "__new__": make,
        "__init__": begin,
        "__class_getitem__": classmethod(lambda cls, item: cls),
        "path": path,
    }
    name, fill = path.rpartition(".")[2], lambda space: space.update(members)
    try:
        kind_of_base = types.prepare_class(name, bases)[0]
        result = types.new_class(name, bases, {"metaclass": _type_of_stand_ins(kind_of_base)}, fill)
    except TypeError:
        # Bases that do not go together here, such as two with layouts of their own.
        result = types.new_class(name, (), {"metaclass": StandInType}, fill)
    return result


def _enumeration(module: str, name: str, values: Members, bases: tuple[type, ...]) -> type:
    bases = tuple(base for base in bases if not issubclass(base, enum.Enum) or base.__module__ == "enum")
    try:
        made: Any = types.new_class(name, bases or (enum.Enum,), {}, None) if not values else None
        if made is None:
            family: Any = next((base for base in bases if issubclass(base, enum.Enum)), enum.Enum)
            made = family(name, list(values.items()), module=module)
    except (TypeError, ValueError):
        made = enum.Enum(name, list(values.items()), module=module)
    return made


class StubObject:
    """Stands for an object of PyTorch that is neither a class nor a function."""

    is_stub = True

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        refuse(self._path)

    def __getattr__(self, name: str) -> StubObject:
        if name.startswith("_"):
            # A copy that is being made has no path yet.
            raise AttributeError(f"{vars(self).get('_path')} has no attribute '{name}'")
        return StubObject(f"{self._path}.{name}")

    def __repr__(self) -> str:
        return f"<missing {self._path}>"


def is_stub(value: object) -> bool:
    """Return whether a function, class, attribute or object only stands for PyTorch's."""
    if isinstance(value, type):
        return vars(value).get("is_stub", False)
    return getattr(value, "is_stub", False) is True
