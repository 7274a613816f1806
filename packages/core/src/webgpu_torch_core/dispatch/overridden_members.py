"""Methods, operators and properties of tensors that other classes and modes may answer."""

from __future__ import annotations

from functools import wraps
from typing import Any

from ..tensors.kinds import TensorKinds
from ..tensors.tensor import Tensor
from . import overrides
from .direct import OPERATORS
from .overrides import PATHS, any_overrides, dispatch, mode_stack, notice, public

_watched: list[tuple[str, Any]] = []
#: operators that PyTorch reports as the method they stand for
_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__rtruediv__": "__rdiv__", "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul", "__neg__": "neg",
    "__pos__": "positive", "__abs__": "abs", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt",
    "__ge__": "ge", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_", "__imod__": "remainder_", "__ipow__": "pow_",
}  # fmt: skip
_OWN_NAMES = (
    "and", "rand", "iand", "or", "ror", "ior", "xor", "rxor", "ixor", "lshift", "rlshift", "ilshift", "rshift", "rrshift",
    "irshift", "eq", "rsub", "rdiv", "rmod", "rpow", "floordiv", "rfloordiv", "rmatmul", "invert", "len", "getitem",
    "setitem", "repr", "float", "int", "bool", "complex", "index", "format", "contains", "reversed", "deepcopy",
    "reduce_ex", "array", "array_wrap", "dlpack", "dlpack_device",
)  # fmt: skip
_IGNORED = frozenset(("as_subclass", "new"))
_VALUES = frozenset(("_version",))


def _operator(name: str, original: Any) -> Any:
    """Return an operator whose calls are reported as the method it stands for."""
    record, _ = OPERATORS.get(original, (None, 0))

    def operator(self: Tensor, *others: Any) -> Any:
        if not overrides._active:
            result = original(self, *others)
            if result is not NotImplemented or not notice(others, {}):
                return result
        try:
            return dispatch(getattr(Tensor, name), original, (self, *others), {})
        except TypeError:
            if not any_overrides(others):
                raise
            # The other operand's class may know what to do.
            return NotImplemented

    elementwise = getattr(record, "__self__", None)
    return wraps(original)(operator if elementwise is None else elementwise.operator(operator))


def _methods() -> dict[str, Any]:
    found = {**vars(TensorKinds), **vars(Tensor)}
    dunders = {f"__{each}__" for each in _OWN_NAMES} | set(_OPERATORS)
    return {
        name: value
        for name, value in found.items()
        if type(value) is _Function
        and value not in PATHS
        and name not in _IGNORED
        and (name in dunders or not name.startswith("_"))
    }


_Function = type(_methods)


def override_methods() -> None:
    """Make the methods of tensors overridable; called once, when all families have added theirs."""
    made: dict[Any, Any] = {}
    for name, value in _methods().items():
        reported = _OPERATORS.get(name)
        if (value, reported) not in made:
            path = f"torch.Tensor.{name}"
            made[value, reported] = _operator(reported, value) if reported else public(_named(value, name), path)
        setattr(Tensor, name, made[value, reported])


def _named(function: Any, name: str) -> Any:
    if name.startswith("__"):
        function.__name__ = name
    return function


def _watch_properties(active: bool) -> None:
    """Put properties in the place of the tensors' own that look who overrides; plain attributes cost what they did."""
    if active and not _watched:
        for name, value in {**vars(TensorKinds), **vars(Tensor)}.items():
            if isinstance(value, property) and (name in _VALUES or not name.startswith("_")):
                _watched.append((name, vars(Tensor).get(name)))
                setattr(Tensor, name, _watching(name, value))
    while not active and _watched:
        name, own = _watched.pop()
        if own is None:
            delattr(Tensor, name)
        else:
            setattr(Tensor, name, own)


overrides.listeners.append(_watch_properties)


def _watching(name: str, original: Any) -> property:
    def read(self: Tensor) -> Any:
        if type(self) is Tensor and not mode_stack():
            return original.__get__(self)
        return dispatch(watched.__get__, original.__get__, (self,), {})

    def write(self: Tensor, value: Any) -> None:
        if type(self) is Tensor and type(value) is Tensor and not mode_stack():
            original.__set__(self, value)
        else:
            dispatch(watched.__set__, original.__set__, (self, value), {})

    def remove(self: Tensor) -> None:
        original.__delete__(self)

    read.__name__ = name
    watched = property(read, write, remove, doc=original.__doc__)
    return watched


def properties() -> list[Any]:
    """Return the readers of the properties of tensors."""
    names = {**vars(TensorKinds), **vars(Tensor)}
    return [
        value.__get__
        for name, value in names.items()
        if isinstance(value, property) and (name in _VALUES or not name.startswith("_"))
    ]
