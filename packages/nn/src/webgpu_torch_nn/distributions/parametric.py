"""What distributions share whose parameters are all tensors of the batch's shape, and their values' behind it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from webgpu_torch_core import Size, Tensor

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def property_of(path: str, meaning: str) -> property:
    """Return a property that is another distribution's, such as ``base_dist.scale``."""
    return property(attrgetter(path), doc=meaning)


class Parametric(Distribution):
    """A distribution whose parameters are named by its ``arg_constraints``."""

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded to another batch shape."""
        new = self._copied(batch_shape, _instance)
        before = len(self._batch_shape)
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand(new._batch_shape + value.shape[before:])
        return new

    def _copied(self, batch_shape: Sequence[int], instance: Any) -> Any:
        """Return a copy with another batch shape, or an instance with what it lacks filled in."""
        new = type(self).__new__(type(self)) if instance is None else instance
        for name, value in self.__dict__.items():
            new.__dict__.setdefault(name, value)
        new._batch_shape = Size(batch_shape)
        return new


class Located(Parametric):
    """A distribution around its parameter ``loc``."""

    loc: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean, ``loc``."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value, ``loc``."""
        return self.loc


class ByProbability(Parametric):
    """What is given by probabilities or by their logarithms; the other is computed when it is asked for."""

    _binary = True

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        found = broadcast_all(self._one_of(probs, logits), *others)
        self.__dict__["logits" if probs is None else "probs"] = found[0]
        return found

    @staticmethod
    def _one_of(probs: Any, logits: Any) -> Any:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return logits if probs is None else probs

    @property
    def _param(self) -> Tensor:
        """The parameter that was given, under the name by which subclasses in other libraries read it."""
        return next(value for name, value in self.__dict__.items() if name in ("probs", "logits"))

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, self._binary)

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds, or the log probabilities of classes."""
        return probs_to_logits(self.probs, self._binary)

    @property
    def _given(self) -> Tensor:
        return self.probs if "probs" in self.__dict__ else self.logits

    @property
    def param_shape(self) -> Size:
        """The shape of what it was given by."""
        return self._given.shape


class ByProbabilityOf(Parametric):
    """A distribution whose probabilities are those of another one, ``_chances``."""

    _chances: ByProbability

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with another batch shape."""
        new = self._copied(batch_shape, _instance)
        new._chances = self._chances.expand(batch_shape)
        return new

    #: as PyTorch's subclasses name it
    _categorical = property_of("_chances", "What chooses.")
    probs = property_of("_chances.probs", "The probabilities.")
    logits = property_of("_chances.logits", "The log odds, or the log probabilities of classes.")
    param_shape = property_of("_chances.param_shape", "The shape of what the probabilities were given by.")
