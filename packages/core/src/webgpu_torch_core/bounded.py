"""Dictionaries that do not grow without end."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


class Bounded(OrderedDict[_Key, _Item]):
    """A dictionary of at most ``limit`` items: a new one takes the place of the first, which is the oldest one or, where items are
    moved to the end when they are used, the one not used for longest."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: _Key, item: _Item) -> None:
        if len(self) >= self.limit and key not in self:
            self.popitem(last=False)
        super().__setitem__(key, item)
