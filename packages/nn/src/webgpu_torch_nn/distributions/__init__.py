"""Probability distributions, as ``torch.distributions``."""

from __future__ import annotations

from . import constraints, kl, transforms, utils
from .bernoulli import Bernoulli
from .categorical import Categorical
from .continuous import Cauchy, Exponential, Laplace
from .discrete import Binomial, Geometric, NegativeBinomial, OneHotCategorical, Poisson
from .distribution import Distribution
from .gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from .gumbel import Gumbel
from .independent import Independent
from .kl import kl_divergence, register_kl
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .transformed import (
    LogitRelaxedBernoulli,
    LogNormal,
    MixtureSameFamily,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    TransformedDistribution,
)
from .transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from .uniform import Uniform

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ComposeTransform", "Dirichlet",
    "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric", "Gumbel", "Independent", "Laplace", "LogNormal",
    "LogitRelaxedBernoulli", "MixtureSameFamily", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "SigmoidTransform", "SoftplusTransform", "StudentT",
    "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "constraints", "identity_transform", "kl",
    "kl_divergence", "register_kl", "transforms", "utils",
]  # fmt: skip
