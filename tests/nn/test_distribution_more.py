"""More families: values, gradients, samples, expansion, supports and what is refused, beside PyTorch's."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from distribution_oracle import array, made, refused_alike, same

# Factorisations have no kernels of their own on WebGPU.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*has no kernel on webgpu"),
    pytest.mark.filterwarnings("ignore:Singular sample detected"),
]
Build = Callable[..., Any]
MATRIX = [[2.25, 0.6, -0.45], [0.6, 0.8, 0.04], [-0.45, 0.04, 1.34]]
CORRELATIONS = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.6, 0.64]]

#: name -> distribution of parameter tensors, the parameters, values to ask about
CASES: dict[str, tuple[Build, tuple[Any, ...], Any]] = {
    "half normal": (lambda d, a: d.HalfNormal(a), ([0.5, 2.0],), [0.2, 3.0]),
    "half cauchy": (lambda d, a: d.HalfCauchy(a), ([0.5, 2.0],), [0.2, 3.0]),
    "pareto": (lambda d, a, b: d.Pareto(a, b), ([0.5, 1.0, 2.0], [0.7, 1.5, 3.0]), [0.7, 3.0, 2.5]),
    "weibull": (lambda d, a, b: d.Weibull(a, b), ([0.5, 2.0], [2.0, 1.3]), [0.7, 3.0]),
    "kumaraswamy": (lambda d, a, b: d.Kumaraswamy(a, b), ([0.5, 2.0], [2.0, 0.4]), [0.7, 0.2]),
    "inverse gamma": (lambda d, a, b: d.InverseGamma(a, b), ([0.5, 1.5, 3.0], [2.0, 0.4, 1.0]), [0.7, 0.2, 4.0]),
    "logistic normal": (lambda d, a, b: d.LogisticNormal(a, b), ([[0.5, -1.0]], [[2.0, 0.4]]), [[0.5, 0.125, 0.375]]),
    "generalized pareto": (
        lambda d, a, b, c: d.GeneralizedPareto(a, b, c),
        ([0.5, 0.0, 1.0, 0.0], [1.0, 2.0, 0.5, 1.0], [0.3, -0.5, 0.0, 1.2]),
        [0.7, 3.0, 1.5, 0.1],
    ),
    "fisher snedecor": (lambda d, a, b: d.FisherSnedecor(a, b), ([1.5, 5.0, 8.0], [2.0, 3.0, 9.0]), [0.7, 0.2, 4.0]),
    "continuous bernoulli": (lambda d, a: d.ContinuousBernoulli(a), ([0.1, 0.4995, 0.5, 0.9],), [0.0, 0.3, 1.0, 0.7]),
    "continuous bernoulli, logits": (lambda d, a: d.ContinuousBernoulli(logits=a), ([-2.0, 0.0, 3.0],), [0.2, 0.3, 0.9]),
    "von mises": (lambda d, a, b: d.VonMises(a, b), ([0.5, -1.0, 3.0], [0.1, 2.0, 30.0]), [0.2, 3.0, 2.9]),
    "multinomial": (
        lambda d, a: d.Multinomial(5, a), ([[0.2, 0.3, 0.5], [1.0, 1.0, 0.0]],), [[1.0, 1.0, 3.0], [2.0, 3.0, 0.0]]
    ),
    "straight through": (
        lambda d, a: d.OneHotCategoricalStraightThrough(logits=a), ([[0.1, 2.0, -1.0]],), [[0.0, 1.0, 0.0]]
    ),
    "relaxed logarithms": (
        lambda d, a, b: d.relaxed_categorical.ExpRelaxedCategorical(b, logits=a), ([[0.3, -1.0, 2.0]], 0.7), [[-1.0, -2.0, -0.7]]
    ),
    "relaxed classes": (lambda d, a, b: d.RelaxedOneHotCategorical(b, a), ([[0.3, 0.2, 0.5]], 0.7), [[0.5, 0.125, 0.375]]),
    "mixture": (
        lambda d, a, b: d.MixtureSameFamily(d.Categorical(a), d.Independent(d.Normal(b, 1.5), 1)),
        ([[0.3, 0.7], [0.5, 0.5]], [[[0.0, 1.0], [2.0, 3.0]], [[0.5, 0.2], [0.7, -1.0]]]),
        [[0.5, 0.1], [0.7, 2.0]],
    ),
    "mixture of bounded ones": (
        lambda d, a, b: d.MixtureSameFamily(d.Categorical(a), d.HalfNormal(b)), ([[0.3, 0.7]] * 2, [[0.5, 2.0]] * 2), [0.5, 0.1]
    ),
    "lkj": (lambda d, a: d.LKJCholesky(3, a), ([0.5, 2.0],), CORRELATIONS),
    "low rank": (
        lambda d, a, b, c: d.LowRankMultivariateNormal(a, b, c),
        ([[0.5, 1.0, -1.0], [0.0, 0.0, 2.0]], [[1.0, 0.5], [-0.3, 0.2], [0.4, 2.0]], [0.5, 1.0, 2.0]),
        [[0.1, 0.2, 0.3], [1.0, 0.0, -1.0]],
    ),
    "wishart": (lambda d, a, b: d.Wishart(a, b), ([4.5, 7.0], MATRIX), MATRIX),
    "wishart, factor": (lambda d, a, b: d.Wishart(a, scale_tril=b), (5.5, CORRELATIONS), MATRIX),
    "wishart, precision": (lambda d, a, b: d.Wishart(a, precision_matrix=b), (5.5, MATRIX), MATRIX),
}  # fmt: skip
MOMENTS = (
    "mean",
    "mode",
    "variance",
    "stddev",
    "covariance_matrix",
    "precision_matrix",
    "scale_tril",
    "probs",
    "logits",
)


def _same(found: Any, wanted: Any, where: str, tolerance: float = 3e-5) -> None:
    same(found, wanted, where, tolerance)


def _made(library: Any, name: str, device: str = "cpu") -> tuple[Any, list[Any], Any]:
    return made(CASES[name], library, device)


def _asked(one: Any, name: str, *arguments: Any) -> Any:
    """Return a property or a method's result; None where there is none."""
    try:
        found = getattr(one, name)
        return found(*arguments) if callable(found) else found
    except (NotImplementedError, AttributeError):
        return None


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    """Everything that PyTorch knows of a distribution."""
    _check_values(name, "cpu")


@pytest.mark.parametrize("name", ["half normal", "continuous bernoulli", "von mises", "low rank", "multinomial"])
def test_values_on_devices(name: str, device: str) -> None:
    """The same of some distributions, on every device."""
    _check_values(name, device)


def _check_values(name: str, device: str) -> None:
    (found, _, value), (wanted, _, theirs) = _made(ours, name, device), _made(torch, name)
    assert found.batch_shape == wanted.batch_shape and found.event_shape == wanted.event_shape
    assert found.has_rsample == wanted.has_rsample and found.has_enumerate_support == wanted.has_enumerate_support
    assert found.arg_constraints.keys() == wanted.arg_constraints.keys()
    # PyTorch's mixtures ask for the weights' logits, which the text then has, too.
    assert name.startswith("mixture") or repr(found) == repr(wanted)
    assert found.support.event_dim == wanted.support.event_dim
    assert found.support.check(value).tolist() == wanted.support.check(theirs).tolist()
    _same(found.log_prob(value), wanted.log_prob(theirs), "log_prob", 1e-4)
    for each in (*MOMENTS, "entropy", "cdf", "icdf", "log_cdf", "log_survival_function", "enumerate_support"):
        share, other = ours.full_like(value, 0.3), torch.full_like(theirs, 0.3)
        given = {"cdf": 1, "log_cdf": 1, "log_survival_function": 1, "icdf": 2}.get(each, 0)
        expected = _asked(wanted, each, *((), (theirs,), (other,))[given])
        if expected is not None:
            _same(_asked(found, each, *((), (value,), (share,))[given]), expected, each, 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    """Those of the density and of the entropy."""
    (found, given, value), (wanted, theirs, other) = _made(ours, name), _made(torch, name)
    for one, two in ((found, value), (wanted, other)):
        entropy = _asked(one, "entropy")
        (one.log_prob(two).sum() + (0.0 if entropy is None else entropy.sum())).backward()
    for one, two in zip(given, theirs, strict=True):
        if two.grad is not None:
            _same(one.grad, two.grad, "gradient", 2e-4)


@pytest.mark.parametrize("name", CASES)
def test_samples(name: str) -> None:
    """PyTorch's numbers of the same seed, and their gradients."""
    (found, given, _), (wanted, theirs, _) = _made(ours, name), _made(torch, name)
    for shape in ((), (2, 3)):
        ours.manual_seed(3), torch.manual_seed(3)
        sample, other = found.sample(shape), wanted.sample(shape)
        assert not sample.requires_grad and found.support.check(sample).all()
        assert sample.shape == tuple(other.shape)
        _same(sample, other, f"sample{shape}", 1e-4)
    if name.startswith("wishart"):
        # PyTorch changes what the gradient of its own samples needs.
        found.rsample((3,)).sum().backward()
        assert all(each.grad is not None and each.grad.isfinite().all() for each in given)
    elif wanted.has_rsample:
        ours.manual_seed(3), torch.manual_seed(3)
        found.rsample((3,)).pow(2).sum().backward(), wanted.rsample((3,)).pow(2).sum().backward()
        for one, two in zip(given, theirs, strict=True):
            _same(one.grad, two.grad, "gradient of samples", 2e-3)


@pytest.mark.parametrize("name", ["fisher snedecor", "inverse gamma", "wishart", "von mises", "lkj", "pareto"])
def test_means(name: str) -> None:
    """The mean of many samples, of matrices the products' with their transposes, is the distribution's."""
    _check_means(name, "cpu")


@pytest.mark.parametrize("name", ["von mises", "lkj"])
def test_means_on_devices(name: str, device: str) -> None:
    """The same of those that draw until all are accepted, on every device."""
    _check_means(name, device)


def _check_means(name: str, device: str) -> None:
    ours.manual_seed(0)
    found, _, _ = _made(ours, name, device)
    sample = found.sample((1500,))
    assert sample.device.type == device
    if name == "von mises":
        angle = sample - found.loc.detach()
        np.testing.assert_allclose(array(angle.cos().mean(0)), 1 - array(found.variance), atol=0.06)
        np.testing.assert_allclose(array(angle.sin().mean(0)), 0.0, atol=0.06)
    elif name == "lkj":
        # Of a row with so many before it, as PyTorch draws it: the mean of its squared length, a beta number, shared evenly.
        square = (sample @ sample.mT).pow(2).mean(0)[:, [0, 0, 1], [1, 2, 2]]
        wanted = [
            [(before + 0.5) / (half + 1 + before / 2) / (before + 1) for before in (0, 1, 1)] for half in (0.5, 2.0)
        ]
        np.testing.assert_allclose(array(square), wanted, atol=0.03)
    else:
        mean, deviation = array(found.mean), array(found.stddev)
        kept = np.isfinite(mean) & np.isfinite(deviation)
        bound = 5 * deviation / np.sqrt(1500)
        assert (np.abs(array(sample).mean(0) - mean) <= bound)[kept].all()


@pytest.mark.parametrize("name", CASES)
def test_expanded(name: str) -> None:
    """A distribution of another batch shape."""
    (found, _, value), (wanted, _, other) = _made(ours, name), _made(torch, name)
    found, wanted = found.expand((4, *found.batch_shape)), wanted.expand((4, *wanted.batch_shape))
    assert found.batch_shape == wanted.batch_shape and found.event_shape == wanted.event_shape
    _same(found.log_prob(value), wanted.log_prob(other), "log_prob", 1e-4)
    assert found.sample((2,)).shape == tuple(wanted.sample((2,)).shape)
    mean = _asked(wanted, "mean")
    if mean is not None:
        _same(found.mean, mean, "mean", 1e-4)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "half normal": lambda t, d: d.HalfNormal(-1.0),
    "pareto": lambda t, d: d.Pareto(1.0, -1.0),
    "below": lambda t, d: d.Pareto(1.0, 1.0).log_prob(t.tensor(0.5)),
    "concentration": lambda t, d: d.InverseGamma(0.0, 1.0),
    "probs": lambda t, d: d.ContinuousBernoulli(1.5, validate_args=True),
    "both": lambda t, d: d.ContinuousBernoulli(0.5, 0.5),
    "counts": lambda t, d: d.Multinomial(t.tensor([1, 2]), t.ones(2)),
    "too many": lambda t, d: d.Multinomial(2, t.ones(2)).log_prob(t.tensor([3.0, 1.0])),
    "one row": lambda t, d: d.LKJCholesky(1),
    "rank": lambda t, d: d.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2)),
    "diagonal": lambda t, d: d.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3)),
    "batches": lambda t, d: d.LowRankMultivariateNormal(t.zeros(2, 2), t.ones(3, 2, 1), t.ones(2)),
    "scalar": lambda t, d: d.LowRankMultivariateNormal(t.tensor(0.0), t.ones(1, 1), t.ones(1)),
    "weights": lambda t, d: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(t.zeros(2), 1.0)),
    "components": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), 3),
    "fewer components": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), d.Normal(t.zeros(3), 1.0)),
    "other mixtures": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2, 2)), d.Normal(t.zeros(3, 2), 1.0)),
    "outside a mixture": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), d.HalfNormal(t.ones(2))).log_prob(
        t.tensor(-1.0)
    ),
    "degrees": lambda t, d: d.Wishart(1.0, t.eye(3)),
    "forms": lambda t, d: d.Wishart(4.0),
    "vector": lambda t, d: d.Wishart(4.0, t.ones(3)),
    "inhomogeneous": lambda t, d: d.Binomial(t.tensor([2.0, 3.0]), 0.5).enumerate_support(),
    "beyond": lambda t, d: d.GeneralizedPareto(0.0, 1.0, -1.0).log_prob(t.tensor(2.0)),
    "abstract": lambda t, d: d.ExponentialFamily(validate_args=False).entropy(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """What PyTorch refuses, with the same error."""
    refused_alike(REFUSED[name], 40)


MODULES = [each.name for each in pkgutil.iter_modules(torch.distributions.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """The modules of PyTorch may be imported, and have what its have."""
    found = importlib.import_module(f"webgpu_torch.distributions.{name}")
    wanted = importlib.import_module(f"torch.distributions.{name}")
    assert [each for each in getattr(wanted, "__all__", ()) if not hasattr(found, each)] == []


CLASSES = [each for each in torch.distributions.__all__ if isinstance(getattr(torch.distributions, each), type)]


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    """Parameters, constraints, supports and what can be asked for are PyTorch's."""
    found, wanted = getattr(ours.distributions, name), getattr(torch.distributions, name)
    assert list(inspect.signature(found).parameters) == list(inspect.signature(wanted).parameters)
    missing = {each for each in dir(wanted) if each[0] != "_" and not hasattr(found, each)}
    assert missing <= {"concentration0", "concentration1"}
    if not issubclass(wanted, torch.distributions.Distribution) or name in ("Distribution", "ExponentialFamily"):
        return
    assert repr(found.support) == repr(wanted.support)
    for each in ("has_rsample", "has_enumerate_support"):
        if isinstance(getattr(wanted, each), bool):
            assert getattr(found, each) is getattr(wanted, each)
    if isinstance(wanted.arg_constraints, dict) and isinstance(found.arg_constraints, dict):
        assert {key: repr(value) for key, value in found.arg_constraints.items()} == {
            key: repr(value) for key, value in wanted.arg_constraints.items()
        }


def test_classes_of_ones_own() -> None:
    """A class that does not say what its parameters and values may be is warned of, and works."""
    for library in (ours, torch):

        class Mine(library.distributions.Distribution):
            def log_prob(self, value: Any) -> Any:
                if self._validate_args:
                    self._validate_sample(value)
                return value

        with pytest.warns(UserWarning, match="Mine.* does not define `arg_constraints`. Please set"):
            made = Mine()
        with pytest.warns(UserWarning, match="Mine.* does not define `support` to enable sample validation"):
            made.log_prob(library.ones(2))
        with pytest.raises(NotImplementedError):
            _ = made.support
        assert Mine(validate_args=False).log_prob(library.ones(2)).shape == (2,)


def test_triangles() -> None:
    """Numbers of lower triangles and back."""
    numbers = torch.arange(18.0).view(2, 3, 3)
    for diagonal in range(-2, 3):
        found = ours.distributions.utils.tril_matrix_to_vec(ours.from_numpy(numbers.numpy()), diagonal)
        wanted = torch.distributions.utils.tril_matrix_to_vec(numbers, diagonal)
        _same(found, wanted, f"{diagonal}")
        if diagonal < 1:
            found = ours.distributions.utils.vec_to_tril_matrix(found, diagonal)
            _same(found, torch.distributions.utils.vec_to_tril_matrix(wanted, diagonal), f"{diagonal}")
    with pytest.raises(ValueError, match="cannot be expressed"):
        ours.distributions.utils.vec_to_tril_matrix(ours.ones(5), 0)
    with pytest.raises(ValueError, match="provided is outside"):
        ours.distributions.utils.tril_matrix_to_vec(ours.ones(2, 2), 2)


def test_low_degrees() -> None:
    """Few degrees of freedom are warned of, as in PyTorch."""
    with pytest.warns(UserWarning, match="Low df values detected"):
        ours.distributions.Wishart(2.5, ours.eye(3))
