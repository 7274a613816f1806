import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood


def _fitted():
    x = torch.rand(10, 2, dtype=torch.double)
    y = 1 - (x - 0.5).norm(dim=-1, keepdim=True)
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model, y


def fit():
    model, _ = _fitted()
    found = model.posterior(torch.full((3, 2), 0.4, dtype=torch.double))
    return [found.mean, found.variance]


def acquisition():
    model, y = _fitted()
    point = torch.full((1, 1, 2), 0.3, dtype=torch.double)
    return [LogExpectedImprovement(model, best_f=y.max())(point), UpperConfidenceBound(model, beta=0.1)(point)]


def sobol():
    from botorch.utils.sampling import draw_sobol_samples

    return draw_sobol_samples(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), n=4, q=2, seed=3)
