import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal


def _model(data):
    mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(data)):
        pyro.sample("seen", dist.Normal(mean, scale), obs=data)


def inference():
    pyro.clear_param_store()
    data = torch.randn(30) + 2
    guide = AutoNormal(_model)
    step = SVI(_model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    return [step.step(data) for _ in range(10)]


def hamiltonian():
    from pyro.infer import MCMC, NUTS

    chain = MCMC(NUTS(_model), num_samples=3, warmup_steps=3, disable_progbar=True)
    chain.run(torch.randn(10))
    return sorted(chain.get_samples())


def distributions():
    return [
        dist.Dirichlet(torch.ones(3)).log_prob(torch.tensor([0.2, 0.3, 0.5])),
        dist.Beta(2.0, 3.0).sample((4,)),
        dist.MultivariateNormal(torch.zeros(2), torch.eye(2)).sample((3,)),
        dist.Delta(torch.ones(2)).log_prob(torch.ones(2)),
    ]


def flows():
    from pyro.distributions.transforms import affine_coupling, planar, spline

    base = dist.Normal(torch.zeros(2), torch.ones(2))
    return [dist.TransformedDistribution(base, [make(2)]).sample((3,)) for make in (affine_coupling, planar, spline)]
