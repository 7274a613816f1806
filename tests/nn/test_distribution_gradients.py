"""Gradients of gamma and Dirichlet samples by their concentrations, beside PyTorch's for the same samples."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
import webgpu_torch as ours
from distribution_oracle import array
from webgpu_torch_nn.distributions.sensitivities import beta_sensitivity

GRID = np.geomspace(0.05, 200, 12).astype(np.float32)


def test_gamma(device: str) -> None:
    """Over a grid of concentrations, tails included, the gradient is PyTorch's."""
    ours.manual_seed(0)
    given = np.tile(GRID, (30, 1))
    concentration = ours.tensor(given.tolist(), device=device, requires_grad=True)
    sample = ours.distributions.Gamma(concentration, ours.tensor(2.0, device=device)).rsample()
    sample.sum().backward()
    wanted = torch._standard_gamma_grad(torch.tensor(given), torch.tensor(array(sample) * 2.0)) / 2.0
    # What was drawn below the smallest normal number is not known: it became that number.
    known = array(sample) > np.finfo(np.float32).tiny
    assert known.mean() > 0.9 and (array(concentration.grad) > 0).all()
    np.testing.assert_allclose(array(concentration.grad)[known], wanted.numpy()[known], 1e-3)


def test_dirichlet(device: str) -> None:
    """The gradient of three probabilities, which take from each other."""
    ours.manual_seed(0)
    given = np.stack([GRID, GRID[::-1], np.roll(GRID, 3)], -1)
    concentration = ours.tensor(given.tolist(), device=device, requires_grad=True)
    sample = ours.distributions.Dirichlet(concentration).rsample()
    weight = np.float32([0.5, -1.0, 2.0])
    (sample * ours.tensor(weight.tolist(), device=device)).sum().backward()
    drawn, a = torch.from_numpy(array(sample)), torch.from_numpy(given)
    grad = torch.from_numpy(weight)
    wanted = torch._dirichlet_grad(drawn, a, a.sum(-1, True).expand_as(a)) * (grad - (drawn * grad).sum(-1, True))
    kept = (drawn > 1e-30) & (drawn < 1 - 1e-6)
    np.testing.assert_allclose(array(concentration.grad)[kept.numpy()], wanted.numpy()[kept.numpy()], 1e-3, 1e-7)


#: values and concentrations, some where PyTorch's own approximation is off by up to 5e-3
POINTS = [
    (0.0575830005, 2.39845366, 200.0), (0.113513186, 4.16935299, 115.0516), (0.99782407, 200.0, 0.05), (0.5, 0.05, 0.05),
    (1e-9, 0.05, 200.0), (0.98672736, 4.169353, 0.05), (0.5, 200.0, 200.0), (0.3, 1.0, 1.0), (0.7, 8.0, 3.0),
]  # fmt: skip


def test_beta_is_exact(device: str) -> None:
    """The gradient of beta values beside the derivative of the distribution function in 40 digits."""
    with mpmath.workdps(40):
        wanted = []
        for point in POINTS:
            x, a, b = (mpmath.mpf(float(np.float32(each))) for each in point)
            change = mpmath.diff(lambda value, x=x, b=b: mpmath.betainc(value, b, 0, x, regularized=True), a)
            density = x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b)
            wanted.append(float(-change / density / (1 - x)))
    found = beta_sensitivity(*(ours.tensor(list(each), device=device) for each in zip(*POINTS, strict=True)))
    np.testing.assert_allclose(array(found), wanted, 2e-4)


@pytest.mark.parametrize("name", ["Beta", "Chi2", "StudentT", "FisherSnedecor"])
def test_mean_follows(name: str) -> None:
    """Gradients of the samples' mean are, on average, those of the distribution's mean; or of the variance's share."""
    if not hasattr(ours.distributions, name):
        pytest.skip(name)
    ours.manual_seed(1)
    given = {"Beta": [2.0, 3.0], "Chi2": [5.0], "StudentT": [7.0], "FisherSnedecor": [5.0, 12.0]}[name]
    tensors = [ours.tensor(each, requires_grad=True) for each in given]
    sample = getattr(ours.distributions, name)(*tensors).rsample((40000,))
    (sample.abs() if name == "StudentT" else sample).mean().backward()
    theirs = [torch.tensor(each, requires_grad=True, dtype=torch.float64) for each in given]
    if name == "StudentT":
        (df,) = theirs
        beta = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2)
        mean = 2 * df.sqrt() * beta.exp() / (np.sqrt(np.pi) * (df - 1))
    else:
        mean = getattr(torch.distributions, name)(*theirs).mean
    mean.backward()
    for one, two in zip(tensors, theirs, strict=True):
        wanted = 0.0 if two.grad is None else two.grad.item()
        assert one.grad.item() == pytest.approx(wanted, rel=0.15, abs=0.02)


def test_detached() -> None:
    """Samples without gradients have none, and half-precision concentrations have theirs."""
    concentration = ours.tensor([1.5], requires_grad=True)
    assert not ours.distributions.Gamma(concentration, 1.0).sample().requires_grad
    half = ours.tensor([1.5, 4.0], dtype=ours.float16, requires_grad=True)
    ours.distributions.Gamma(half, 1.0).rsample().sum().backward()
    assert half.grad.dtype is ours.float16 and (half.grad > 0).all()
