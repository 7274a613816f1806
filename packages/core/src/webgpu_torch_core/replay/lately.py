"""Objects among arguments that come again with the same contents, as a cache of keys and values does at every token.

Describing one takes a call for everything in it; asking whether its contents are the same objects as last time takes a few.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import TYPE_CHECKING

from ..bounded import Bounded
from .observed import Observed

if TYPE_CHECKING:
    from ..tensors.tensor import Tensor
    from .guards import Description

#: objects kept, and keys that have tokens
_OBJECTS, _TOKENS = 8, 256
#: how often in a row an object may have other contents before it is described without looking for what it was
_RESTLESS = 3
#: what a tensor's description depends on, and which of it is None of one that comes again
_plain_of = attrgetter("_grad_fn", "_base", "_hooks", "_accumulator")
_PLAIN = (None, None, None, None)
_state_of = attrgetter(
    "__class__", "_layout", "_dtype", "_device", "_storage", "_requires_grad", "_grad_fn", "_base", "_hooks", "_accumulator",
)  # fmt: skip


class Known:
    """An object's description.

    Attributes:
        token: stands for its key.
        number: which of all described objects it was; contents count from there.
        restless: how often in a row it had other contents.
    """

    __slots__ = ("contents", "identities", "number", "observed", "reference", "restless", "states", "tensors", "token")

    def __init__(self, reference: Callable[[], object], number: int, restless: int) -> None:
        self.reference = reference
        self.number = number
        self.restless = restless
        self.token: object = None
        self.observed = Observed()
        self.contents: list[object] = []
        self.identities: list[int] = []
        self.tensors: list[Tensor] = []
        self.states: list[tuple[object, ...]] = []

    def add_to(self, description: Description) -> bool:
        """Add what was met, if it is met again; return whether it is."""
        if (
            self.token is None
            or len(description.objects) != self.number
            or not description.numbers.keys().isdisjoint(self.identities)
            or self.observed.moved()
            or list(map(_state_of, self.tensors)) != self.states
        ):
            return False
        description.numbers.update(zip(self.identities, range(self.number, self.number + len(self.contents))))
        description.objects += self.contents
        description.tensors += self.tensors
        self.restless = 0
        return True

    def keep(self, token: object, contents: list[object], tensors: list[Tensor]) -> bool:
        """Keep what was met, if the next time can tell whether it is the same; return whether it can."""
        if any(_plain_of(each) != _PLAIN or each.__dict__ for each in tensors):
            return False
        for each in tensors:
            self.observed.size(each.__dict__)
        self.token, self.contents, self.tensors = token, contents, tensors
        self.identities, self.states = list(map(id, contents)), list(map(_state_of, tensors))
        return True


class Lately:
    """What was described of arguments lately: their contents are held as long as they are there, at most until the next time."""

    def __init__(self) -> None:
        self._known: Bounded[int, Known] = Bounded(_OBJECTS)
        self._tokens: dict[Hashable, object] = {}

    def again(self, description: Description, value: object) -> object | None:
        """Return what stands for an object that has the contents that it had, which are added to a description; None for another."""
        found = self._known.get(id(value))
        if found is not None and found.reference() is value and found.add_to(description):
            return found.token
        return None

    def of(self, description: Description, value: object, describe: Callable[[], Hashable]) -> object:
        """Return what stands for a new object, or one with other contents: equal for equal ones. ``describe`` returns a key of all in it."""
        found = self._known.get(id(value))
        if found is not None and found.reference() is not value:
            found = None
        restless = 0 if found is None else found.restless + 1
        made = self._begun(value, len(description.objects), restless)
        tensors, met = len(description.tensors), (len(description.roots), len(description.hooks))
        outer, description.lately = description.observed, None
        if made.restless < _RESTLESS:
            description.observed, description.notes = made.observed, True
        description.began, description.fixed = made.number, False
        try:
            key = describe()
        finally:
            description.lately, description.observed, description.notes, description.began = self, outer, False, 0
        if len(self._tokens) >= _TOKENS:
            self._tokens.clear()
        token = self._tokens.setdefault(key, object())
        # What is not looked into may hold the object itself, and what was met before may be another object the next time.
        alone = met == (len(description.roots), len(description.hooks)) and not description.fixed
        if not (made.restless < _RESTLESS and alone and description.unseen is None) or not made.keep(
            token, description.objects[made.number :], description.tensors[tensors:]
        ):
            made.observed = Observed()
        return token

    def _begun(self, value: object, number: int, restless: int) -> Known:
        """Return what is going to be known of an object."""
        known, key = self._known, id(value)

        def forget(reference: object) -> None:
            if key in known and known[key].reference is reference:
                del known[key]

        try:
            reference = weakref.ref(value, forget)
        except TypeError:
            # Nobody would tell when it goes.
            return Known(lambda: None, number, _RESTLESS)
        made = known[key] = Known(reference, number, restless)
        return made
