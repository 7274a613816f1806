"""Transforms and the registries of constraints: values, inverses, derivatives and shapes, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from distribution_oracle import array, refused_alike

pytestmark = pytest.mark.filterwarnings("ignore:.*has no kernel on webgpu")
Make = Callable[[Any, Any], Any]
SIX = [[0.3, -1.2, 0.7, 2.0, -0.4, 0.1], [1.3, 0.2, -0.7, 0.0, 0.4, -2.1]]
SQUARES = [[[0.3, -1.2], [0.7, 2.0]], [[-0.4, 0.1], [1.3, 0.2]]]

#: name -> a transform of a library (t) and its distributions (d), and arguments
CASES: dict[str, tuple[Make, Any]] = {
    "abs": (lambda t, d: d.AbsTransform(), SIX),
    "affine": (lambda t, d: d.AffineTransform(t.tensor([1.0, -2.0] * 3), 0.5, event_dim=1), SIX),
    "power": (lambda t, d: d.PowerTransform(t.tensor([2.0, -1.0, 0.5] * 2)), np.abs(SIX) + 0.5),
    "cumulative": (lambda t, d: d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)), SIX),
    "independent": (lambda t, d: d.IndependentTransform(d.ExpTransform(), 1), SIX),
    "reshape": (lambda t, d: d.ReshapeTransform((6,), (2, 3)), SIX),
    "softmax": (lambda t, d: d.SoftmaxTransform(), SIX),
    "stick breaking": (lambda t, d: d.StickBreakingTransform(), SIX),
    "lower cholesky": (lambda t, d: d.LowerCholeskyTransform(), SQUARES),
    "positive definite": (lambda t, d: d.PositiveDefiniteTransform(), SQUARES),
    "correlations": (lambda t, d: d.CorrCholeskyTransform(), SIX),
    "cat": (lambda t, d: d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)], 1, [2, 4]), SIX),
    "cat of vectors": (
        lambda t, d: d.CatTransform([d.IndependentTransform(d.ExpTransform(), 1), d.IndependentTransform(d.TanhTransform(), 1)], -1, [2, 4]),
        SIX,
    ),
    "stack": (lambda t, d: d.StackTransform([d.ExpTransform(), d.identity_transform], 0), SIX),
    "composed": (
        lambda t, d: d.ComposeTransform([d.ExpTransform(), d.ReshapeTransform((6,), (2, 3)), d.AffineTransform(0.5, 2.0)]), SIX
    ),
    "inverse": (lambda t, d: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0.5, 2.0)]).inv, np.abs(SIX) + 1.0),
}  # fmt: skip


def _made(library: Any, name: str, device: str = "cpu") -> tuple[Any, Any]:
    make, given = CASES[name]
    with library.device(device):
        return make(library, library.distributions), library.tensor(np.array(given, np.float32).tolist())


def _like(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(array(found), array(wanted), 2e-5, 2e-5)


@pytest.mark.parametrize("name", CASES)
def test_transforms(name: str, device: str) -> None:
    """Values, inverses, shapes, event dimensions; and the derivative where PyTorch knows it."""
    (one, x), (two, other) = _made(ours, name, device), _made(torch, name)
    y, wanted = one(x), two(other)
    _like(y, wanted)
    _like(one.inv(y), two.inv(wanted))
    assert one.inv.inv is one and one.bijective == two.bijective
    assert one.forward_shape(x.shape) == tuple(two.forward_shape(other.shape)) == tuple(wanted.shape)
    assert one.inverse_shape(y.shape) == tuple(two.inverse_shape(wanted.shape))
    for each in ("domain", "codomain"):
        assert getattr(one, each).event_dim == getattr(two, each).event_dim
    assert one.codomain.check(y).tolist() == two.codomain.check(wanted).tolist()
    assert (one == _made(ours, name, device)[0]) is (two == _made(torch, name)[0])
    if two.bijective:
        _like(one.log_abs_det_jacobian(x, y), two.log_abs_det_jacobian(other, wanted))


def test_caches() -> None:
    """A transform that remembers gives back the very tensors."""
    transform = ours.distributions.ExpTransform().with_cache()
    x = ours.ones(2)
    y = transform(x)
    assert transform(x) is y and transform.inv(y) is x
    chain = ours.distributions.ComposeTransform([ours.distributions.TanhTransform()], cache_size=1)
    assert chain.inv(chain(x)) is x


CONSTRAINTS: dict[str, tuple[Make, list[int]]] = {
    "real": (lambda t, c: c.real, [4]),
    "positive": (lambda t, c: c.positive, [4]),
    "nonnegative": (lambda t, c: c.nonnegative, [4]),
    "greater than": (lambda t, c: c.greater_than(2.0), [4]),
    "less than": (lambda t, c: c.less_than(t.tensor(-1.0)), [4]),
    "unit interval": (lambda t, c: c.unit_interval, [4]),
    "half-open interval": (lambda t, c: c.half_open_interval(-2.0, 3.0), [4]),
    "simplex": (lambda t, c: c.simplex, [2, 4]),
    "lower cholesky": (lambda t, c: c.lower_cholesky, [2, 3, 3]),
    "positive definite": (lambda t, c: c.positive_definite, [3, 3]),
    "correlations": (lambda t, c: c.corr_cholesky, [2, 3]),
    "independent": (lambda t, c: c.independent(c.positive, 1), [2, 3]),
    "cat": (lambda t, c: c.cat([c.positive, c.unit_interval], 1, [1, 2]), [2, 3]),
    "stack": (lambda t, c: c.stack([c.positive, c.real], 0), [2, 3]),
    "integers": (lambda t, c: c.nonnegative_integer, [4]),
}


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_registry(registry: str, name: str) -> None:
    """The transform to a constraint: its values are PyTorch's and satisfy it; or neither has one."""
    make, shape = CONSTRAINTS[name]
    constraint, other = (make(each, each.distributions.constraints) for each in (ours, torch))
    given = np.random.default_rng(3).normal(size=shape).astype(np.float32).tolist()
    try:
        wanted = getattr(torch.distributions, registry)(other)
    except NotImplementedError as error:
        with pytest.raises(NotImplementedError, match=str(error)):
            getattr(ours.distributions, registry)(constraint)
        return
    found = getattr(ours.distributions, registry)(constraint)(ours.tensor(given))
    _like(found, wanted(torch.tensor(given)))
    assert constraint.check(found).all()
    assert constraint.check(-found - 1.5).tolist() == other.check(torch.from_numpy(array(-found - 1.5))).tolist()


def test_registering() -> None:
    """New constraints may be registered, what is none may not; dependent ones say so."""
    d = ours.distributions

    class Even(d.constraints.Constraint):
        pass

    registry = d.constraint_registry.ConstraintRegistry()
    registry.register(Even(), lambda constraint: d.AffineTransform(0.0, 2.0))
    assert registry(Even())(ours.ones(1)).item() == 2.0
    with pytest.raises(TypeError, match="Expected constraint to be either"):
        registry.register(3, lambda constraint: d.ExpTransform())

    class Above:
        @d.constraints.dependent_property(is_discrete=False, event_dim=1)
        def support(self) -> Any:
            return d.constraints.greater_than(3.0)

    assert d.constraints.is_dependent(Above.support) and Above.support.event_dim == 1
    assert Above().support.lower_bound == 3.0
    with pytest.raises(NotImplementedError, match="cannot be determined statically"):
        _ = d.constraints.dependent.event_dim


REFUSED: dict[str, Make] = {
    "cache": lambda t, d: d.ExpTransform(cache_size=2),
    "elements": lambda t, d: d.ReshapeTransform((2,), (3,)),
    "reshaped": lambda t, d: d.ReshapeTransform((2,), (1, 2)).forward_shape((4, 3)),
    "triangle": lambda t, d: d.CorrCholeskyTransform().forward_shape((4,)),
    "square": lambda t, d: d.CorrCholeskyTransform().inverse_shape((4, 3)),
    "scalar": lambda t, d: d.StickBreakingTransform().forward_shape(()),
    "no transform": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), [3]),
    "no list": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), 3),
    "too few": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), d.SoftmaxTransform()),
    "length": lambda t, d: d.CatTransform([d.ExpTransform()], 0, [2])(t.zeros(3)),
    "sign": lambda t, d: d.AbsTransform().sign,
    "event": lambda t, d: d.StickBreakingTransform().inv.inverse_shape(()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """What PyTorch refuses, with the same error."""
    refused_alike(REFUSED[name], 50)
