"""Distributions of whole numbers and classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.random.gamma import standard_gamma

from webgpu_torch_nn import functional

from . import constraints
from .categorical import Categorical
from .exp_family import ExponentialFamily
from .parametric import ByProbability, ByProbabilityOf, Parametric
from .utils import broadcast_all


class Geometric(ByProbability):
    """How many trials fail before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        (given,) = self._take(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((given > 0).all()):
            raise ValueError(f"Expected parameter probs of distribution {self!r} to be positive but found {given}")

    @property
    def mean(self) -> Tensor:
        """``1 / p - 1``."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """0."""
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """``(1 / p - 1) / p``."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return counts."""
        with torch.no_grad():
            chance = torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            tiny = torch.finfo(self.probs.dtype).tiny
            return (chance.clamp(min=tiny).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability."""
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 failures of a sure success: 0 * log(0) is 0.
        failure = torch.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failure).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (functional.softplus(self.logits) - self.probs * self.logits) / self.probs


class OneHotCategorical(ByProbabilityOf):
    """One of n classes, as a vector with a single 1."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._chances = Categorical(probs, logits, validate_args)
        super().__init__(self._chances.batch_shape, (self._chances._num_events,), validate_args)

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return functional.one_hot(self._chances.mode, self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """``p (1 - p)``."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return vectors, without gradients."""
        return functional.one_hot(self._chances.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability."""
        self._validate_sample(value)
        return self._chances.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._chances.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all vectors along a new first dimension."""
        count = self._event_shape[0]
        values = torch.eye(count, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view((count,) + (1,) * len(self._batch_shape) + (count,))
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """:class:`OneHotCategorical` whose samples pass gradients straight on to the probabilities.

    Y. Bengio, N. Léonard, A. Courville, "Estimating or propagating gradients through stochastic neurons", 2013.
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return vectors."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Poisson(Parametric, ExponentialFamily):
    """The distribution ``rate^k exp(-rate) / k!`` of counts."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The rate rounded down."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The rate."""
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return counts."""
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability."""
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return torch.xlogy(value, rate) - rate - torch.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()


class NegativeBinomial(ByProbability):
    """How many trials succeed before ``total_count`` of them fail."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given, self.total_count = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``total_count exp(logits)``."""
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """The mean over the probability of failure."""
        return self.mean / torch.sigmoid(-self.logits)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return counts: of Poisson's distribution with a rate of the gamma distribution."""
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            return torch.poisson(standard_gamma(self.total_count.expand(shape)) * torch.exp(self.logits))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability."""
        self._validate_sample(value)
        count, log_sigmoid = self.total_count, functional.logsigmoid
        chosen = torch.lgamma(count + value) - torch.lgamma(1.0 + value) - torch.lgamma(count)
        normal = torch.where(count + value == 0.0, 0.0, chosen)
        return count * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits) + normal


class Binomial(ByProbability):
    """How many of ``total_count`` trials succeed."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given, self.total_count = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(given)
        super().__init__(given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """``n p``."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """``n p (1 - p)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return counts."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability."""
        self._validate_sample(value)
        count = self.total_count
        chosen = torch.lgamma(count + 1) - torch.lgamma(value + 1) - torch.lgamma(count - value + 1)
        return chosen + value * self.logits - count * functional.softplus(self.logits)

    def _count(self, asked: str) -> int:
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return count

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all counts along a new first dimension.

        Raises:
            NotImplementedError: the numbers of trials differ.
        """
        count = self._count("enumerate_support")
        values = torch.arange(1 + count, dtype=self._given.dtype, device=self._given.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Tensor:
        """Return the entropy.

        Raises:
            NotImplementedError: the numbers of trials differ.
        """
        self._count("entropy")
        logs = self.log_prob(self.enumerate_support(False))
        return -(logs.exp() * logs).sum(0)


class Multinomial(ByProbabilityOf):
    """How often each of several classes is drawn in ``total_count`` draws; the classes are the last dimension.

    Args:
        total_count: how many draws.
        probs: probabilities; they are divided by their sum.
        logits: or their logarithms, up to a constant.
        validate_args: see :class:`Distribution`.

    Raises:
        NotImplementedError: the number of draws is no number.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._chances = Categorical(probs=probs, logits=logits)
        shape = self._chances.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with another batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(Multinomial, _instance))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that are not more than the draws."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """``n p``."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """``n p (1 - p)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return counts."""
        with torch.no_grad():
            drawn = self._chances.sample((self.total_count, *tuple(sample_shape))).movedim(0, -1)
            counts = torch.zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            return counts.scatter_add(-1, drawn, torch.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        impossible = (value == 0) & (logits == -math.inf)
        powers = (torch.where(impossible, 0.0, logits) * value).sum(-1)
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + powers

    def entropy(self) -> Tensor:
        """Return the entropy: that of all draws less what their order and the counts of one class tell."""
        counts = Binomial(self.total_count, self.probs, validate_args=False)
        values = counts.enumerate_support(expand=False)[1:]
        repeated = (counts.log_prob(values).exp() * torch.lgamma(values + 1)).sum([0, -1])
        return self.total_count * self._chances.entropy() - math.lgamma(self.total_count + 1) + repeated


__all__ = [
    "Binomial", "Geometric", "Multinomial", "NegativeBinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Poisson",
]  # fmt: skip
