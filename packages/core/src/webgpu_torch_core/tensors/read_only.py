"""Attributes of tensors that programs read and do not write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar


def _refused(name: str) -> AttributeError:
    return AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")


class ReadOnly(property):
    """A property of tensors whose writes and deletions are refused in PyTorch's words.

    ``owner``: the class whose annotation tells its type, where what reads it does not.
    """

    def __init__(
        self, read: Callable[..., object], doc: str | None = None, name: str | None = None, owner: type | None = None
    ) -> None:
        super().__init__(read, doc=doc)
        self._name = name or getattr(read, "__name__", "")
        self.__objclass__ = owner

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise _refused(self._name)

    def __delete__(self, instance: object) -> NoReturn:
        raise _refused(self._name)


Value = TypeVar("Value")


class Constant(Generic[Value]):
    """An attribute that is the same for all tensors of a class, and of none to be written."""

    def __init__(self, value: Value) -> None:
        self.value = value
        # What it is of is told where it stands.
        self.__doc__ = None

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Value:
        return self.value

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise _refused(self._name)

    def __delete__(self, instance: object) -> NoReturn:
        raise _refused(self._name)
