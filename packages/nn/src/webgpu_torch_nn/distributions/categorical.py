"""The distribution of one of several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from . import constraints
from .parametric import ByProbability


class Categorical(ByProbability):
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
    _binary = False

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        given = self._one_of(probs, logits)
        if given.dim() < 1:
            name = "logits" if probs is None else "probs"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.shape[:-1], validate_args=validate_args)

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
