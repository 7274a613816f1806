"""The base of all distributions, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor
from webgpu_torch_core.notices import warn

from . import constraints


def _undefined(self: Any) -> Any:
    """Refuse: a class of one's own should define it."""
    raise NotImplementedError


class Distribution:
    """A batch of distributions over values of shape ``event_shape``.

    Args:
        batch_shape: the shape of the parameters, each of which is one distribution.
        event_shape: the shape of one value.
        validate_args: whether parameters and values are checked; checking waits for the device.
    """

    has_rsample = False
    has_enumerate_support = False
    #: what the parameters may be, by their names, and what the values may be
    arg_constraints: Any = property(_undefined)
    support: Any = property(_undefined)
    _validate_args = __debug__

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their arguments unless told."""
        Distribution._validate_args = bool(value)

    def _check_parameters(self) -> None:
        try:
            found = self.arg_constraints
        except NotImplementedError:
            found = {}
            self._warn("does not define `arg_constraints`. Please set `arg_constraints = {}` or")
        for name, constraint in found.items():
            if constraints.is_dependent(constraint):
                continue
            # What is computed of other parameters when it is asked for need not be checked.
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), cached_property):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _warn(self, lack: str) -> None:
        turned_off = "initialize the distribution with `validate_args=False` to turn off validation."
        warn(f"{self.__class__} {lack} {turned_off}")

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values of shape ``sample_shape + batch_shape + event_shape``, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values that are differentiable functions of the parameters.

        Raises:
            NotImplementedError: the distribution has no such form.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Return ``sample((n,))``; deprecated."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", category=FutureWarning)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, of values."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value below which a share of the probability lies."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along the first dimension."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return torch.exp(self.entropy())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded to another batch shape."""
        raise NotImplementedError

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return what ``expand`` of a class fills in: the instance that is given, or an empty one.

        Raises:
            NotImplementedError: a subclass has another ``__init__`` and no ``expand``.
        """
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define "
                "a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*tuple(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise where values do not fit the distribution.

        Raises:
            ValueError: values of another shape or outside of the support, or no tensor.
        """
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event = len(self._event_shape)
        if value.shape[value.ndim - event :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        self._check_broadcast(value)
        try:
            support = self.support
        except NotImplementedError:
            return self._warn("does not define `support` to enable sample validation. Please")
        if not constraints.is_dependent(support) and not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _check_broadcast(self, value: Tensor) -> None:
        expected = self._batch_shape + self._event_shape
        for one, other in zip(reversed(value.shape), reversed(expected), strict=False):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )

    def __repr__(self) -> str:
        names = [each for each in self.arg_constraints if each in self.__dict__]
        values = ((each, self.__dict__[each]) for each in names)
        text = ", ".join(f"{key}: {value if value.numel() == 1 else value.size()}" for key, value in values)
        return f"{type(self).__name__}({text})"
