"""The two kinds of pipes, and what makes a class of them a method of all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ..dataset import Dataset, IterableDataset

_Class = TypeVar("_Class", bound=type)


class _Chained:
    """What both kinds of pipes share: the methods that :func:`functional_datapipe` registered."""

    functions: dict[str, Callable[..., object]]

    def __getattr__(self, attribute_name: str) -> Callable[..., object]:
        if attribute_name not in type(self).functions:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")
        return functools.partial(type(self).functions[attribute_name], self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]

    def __repr__(self) -> str:
        return type(self).__qualname__

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., object]) -> None:
        """Make a function a method of all pipes of the kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Callable[..., object], enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class a method of all pipes of the kind.

        Raises:
            Exception: the name is taken.
        """
        if function_name in cls.functions:
            # PyTorch raises no narrower class here.
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__


class IterDataPipe(_Chained, IterableDataset[object]):
    """A stream of samples; subclasses define ``__iter__``. ``reset`` is for subclasses that keep something between runs."""

    functions: dict[str, Callable[..., object]] = {}

    def reset(self) -> None:
        """Do nothing; a subclass clears what it keeps."""


class DFIterDataPipe(IterDataPipe):
    """A stream of data frames, which are not treated otherwise here."""


class MapDataPipe(_Chained, Dataset[object]):
    """A map from indices to samples; subclasses define ``__getitem__`` and mostly ``__len__``."""

    functions: dict[str, Callable[..., object]] = {}


class DataChunk(list[object]):
    """A batch: a list that gives its own samples when it is unbatched."""

    def __init__(self, items: Iterable[object]) -> None:
        super().__init__(items)
        self.items = self

    def raw_iterator(self) -> Iterator[object]:
        """Return an iterator over the samples."""
        return iter(self)


class functional_datapipe:
    """Decorate a class of pipes, which becomes the method ``name`` of all pipes of its kind.

    Args:
        name: of the method.
        enable_df_api_tracing: accepted.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: _Class) -> _Class:
        for kind in (IterDataPipe, MapDataPipe):
            if issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
        return cls
