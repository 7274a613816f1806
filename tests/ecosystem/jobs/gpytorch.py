import gpytorch
import torch


class _Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = (
            gpytorch.means.ConstantMean(),
            gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()),
        )

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exact():
    x = torch.linspace(0, 1, 20)
    y = torch.sin(x * 6)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = _Model(x, y, likelihood)
    objective, optimizer = (
        gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model),
        torch.optim.Adam(model.parameters(), lr=0.1),
    )
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval(), likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(torch.linspace(0, 1, 7)))
    return [losses, found.mean, found.variance]


def kernels():
    x = torch.randn(6, 2)
    return [
        kernel(x).to_dense()
        for kernel in (
            gpytorch.kernels.MaternKernel(2.5),
            gpytorch.kernels.PeriodicKernel(),
            gpytorch.kernels.LinearKernel(),
            gpytorch.kernels.RQKernel(),
        )
    ]
