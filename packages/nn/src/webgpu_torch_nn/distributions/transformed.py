"""Distributions made of others: more event dimensions, functions of values, mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .independent import Independent
from .normal import Normal
from .parametric import ByProbabilityOf, Parametric, property_of
from .transforms import ComposeTransform, ExpTransform, SigmoidTransform, Transform, sum_rightmost
from .utils import broadcast_all, clamp_probs


class TransformedDistribution(Parametric):
    """The distribution of a function of a base distribution's values."""

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms: list[Transform] = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list | tuple):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(each, Transform) for each in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        before, after = whole.domain.event_dim, whole.codomain.event_dim
        if len(shape) < before:
            raise ValueError(f"base_distribution needs to have shape with size at least {before}, but got {shape}.")
        own = len(base_distribution.event_shape)
        forward = whole.forward_shape(shape)
        expanded = whole.inverse_shape(forward)
        if shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - own])
        self.base_dist: Any = Independent(base_distribution, before - own) if before > own else base_distribution
        kept = len(forward) - max(after, own + after - before)
        super().__init__(forward[:kept], forward[kept:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with another batch shape."""
        new = super().expand(batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    has_rsample: Any = property_of("base_dist.has_rsample", "As the base's.")

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """What the last transform gives."""
        if not self.transforms:
            return self.base_dist.support
        given = self.transforms[-1].codomain
        more = len(self._event_shape) - given.event_dim
        return constraints.independent(given, more) if more > 0 else given

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _backward(self, y: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            y = transform.inv(y)
        return y

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return the function of the base's values."""
        with torch.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return the function of the base's values, with gradients."""
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the base's at the argument, less the logarithm of the derivative."""
        if self._validate_args:
            self._validate_sample(value)
        events, total = len(self._event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            events += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, value), events - transform.domain.event_dim)
            value = x
        return total + sum_rightmost(self.base_dist.log_prob(value), events - len(self.base_dist.event_shape))

    def _sign(self) -> Any:
        return ComposeTransform(self.transforms).sign

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most a value."""
        value = self._backward(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        below, sign = self.base_dist.cdf(value), self._sign()
        return below if isinstance(sign, int) and sign == 1 else sign * (below - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return quantiles."""
        sign = self._sign()
        if not (isinstance(sign, int) and sign == 1):
            value = sign * (value - 0.5) + 0.5
        return self._forward(self.base_dist.icdf(value))


class LogNormal(TransformedDistribution):
    """The exponential of a normal number."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive
    has_rsample: Any = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = property_of("base_dist.loc", "The logarithm's mean.")
    scale = property_of("base_dist.scale", "The logarithm's standard deviation.")

    @property
    def mean(self) -> Tensor:
        """``exp(loc + scale^2 / 2)``."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        """``exp(loc - scale^2)``."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() + self.loc


class LogitRelaxedBernoulli(ByProbabilityOf):
    """The log odds of :class:`RelaxedBernoulli` (Maddison et al., "The concrete distribution", 2017)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        from .bernoulli import Bernoulli

        self.temperature = temperature
        self._chances = Bernoulli(probs, logits, validate_args)
        super().__init__(self._chances.batch_shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        chance = clamp_probs(torch.rand(shape, dtype=probs.dtype, device=probs.device))
        return (chance.log() - (-chance).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        temperature = torch.as_tensor(self.temperature, dtype=away.dtype, device=away.device)
        return temperature.log() + away - 2 * away.exp().log1p()


class _Relaxed(TransformedDistribution):
    """What has a temperature, and what it shares with the distribution that it is made of."""

    has_rsample: Any = True

    temperature = property_of("base_dist.temperature", "The temperature.")
    logits = property_of("base_dist.logits", "The log odds, or the log probabilities of classes.")
    probs = property_of("base_dist.probs", "The probabilities.")


class RelaxedBernoulli(_Relaxed):
    """Numbers in (0, 1) that gather at the ends as the temperature falls."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(ByProbabilityOf):
    """The logarithms of :class:`RelaxedOneHotCategorical` (Maddison et al., "The concrete distribution", 2017)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self.temperature = temperature
        self._chances = Categorical(probs, logits, validate_args)
        super().__init__(self._chances.batch_shape, (self._chances._num_events,), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values."""
        shape = self._extended_shape(sample_shape)
        chance = clamp_probs(torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        return torch.log_softmax((self.logits - (-chance.log()).log()) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        count = self._event_shape[0]
        logits, value = torch.broadcast_tensors(self.logits, value)
        temperature = torch.as_tensor(self.temperature, dtype=logits.dtype, device=logits.device)
        score = torch.log_softmax(logits - value * temperature, -1).sum(-1)
        return score + math.lgamma(count) + (count - 1) * temperature.log()


class RelaxedOneHotCategorical(_Relaxed):
    """Probabilities that gather at the corners of the simplex as the temperature falls (Gumbel softmax)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.simplex

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)


class MixtureSameFamily(Parametric):
    """A mixture: the last batch dimension of the components is what the weights choose from."""

    arg_constraints: Any = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        self._mixture_distribution = mixture_distribution
        self._component_distribution: Any = component_distribution
        weights, kept = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for one, other in zip(reversed(weights), reversed(kept), strict=False):
            if one != other and 1 not in (one, other):
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                    f"`component_distribution.batch_shape`({kept})"
                )
        count, found = mixture_distribution._num_events, component_distribution.batch_shape[-1]
        if count != found:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` ({found})"
            )
        super().__init__(kept, component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the mixture with another batch shape."""
        new = self._copied(batch_shape, _instance)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._component_distribution = self._component_distribution.expand(
            (*batch_shape, self._mixture_distribution._num_events)
        )
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """As the components', of which one gives the value."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weighted(self, value: Tensor) -> Tensor:
        weights = self._mixture_distribution.probs
        weights = weights.reshape(weights.shape + (1,) * len(self._event_shape))
        return (weights * value).sum(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        """The weighted mean."""
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The variance within and between the components."""
        place = -1 - len(self._event_shape)
        away = self._component_distribution.mean - self.mean.unsqueeze(place)
        return self._weighted(self._component_distribution.variance) + self._weighted(away.pow(2))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return values of the components that the weights draw."""
        with torch.no_grad():
            place = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (1 + len(self._event_shape)))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return values.gather(place, index).squeeze(place)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the weighted probability of at most a value."""
        return (self._component_distribution.cdf(value.unsqueeze(-1)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the weighted density."""
        self._validate_sample(value)
        value = value.unsqueeze(-1 - len(self._event_shape))
        logs = torch.log_softmax(self._mixture_distribution.logits, -1)
        return torch.logsumexp(self._component_distribution.log_prob(value) + logs, -1)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"


__all__ = [
    "ExpRelaxedCategorical", "LogNormal", "LogitRelaxedBernoulli", "MixtureSameFamily", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "TransformedDistribution",
]  # fmt: skip
