"""The distribution of one of several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from . import constraints
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits


class Categorical(Distribution):
    """Class numbers from 0, each with a probability; the classes are the parameters' last dimension.

    Args:
        probs: probabilities; they are divided by their sum.
        logits: or their logarithms, up to a constant.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: not exactly one of the two is given, or it has no dimension.
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given: Any = logits if probs is None else probs
        if given.dim() < 1:
            name = "logits" if probs is None else "probs"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _given(self) -> Tensor:
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of the probabilities."""
        return self._given.size()

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The class numbers."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: classes have no mean."""
        return torch.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        """The most likely class."""
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """NaN: classes have no variance."""
        return self.mean

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Categorical:
        """Return a distribution whose probabilities are expanded to a batch shape."""
        events = (self._num_events,)
        made = self._expanded(_instance, batch_shape, {"probs": events, "logits": events})
        made._num_events = self._num_events
        return made

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random class numbers."""
        shape = Size(sample_shape)
        with torch.no_grad():
            drawn = torch.multinomial(self.probs.reshape(-1, self._num_events), shape.numel(), True).T
        return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithms of the probabilities of classes."""
        if self._validate_args:
            self._validate_sample(value)
        index, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        # Classes of probability 0 add nothing, not 0 times minus infinity.
        logits = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all class numbers along a new first dimension."""
        values = torch.arange(self._num_events, dtype=torch.long, device=self._given.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
