import torch
from torchdiffeq import odeint, odeint_adjoint


def _run(solve, method, **options):
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, y):
            return self.net(y)

    out = solve(Field(), torch.randn(3, 2), torch.linspace(0, 1, 4), method=method, **options)
    out.square().sum().backward()
    return [out, *(each.grad for each in net.parameters())]


def rk4():
    return _run(odeint, "rk4")


def dopri5():
    return _run(odeint, "dopri5")


def adams():
    return _run(odeint, "implicit_adams")


def adjoint():
    return _run(odeint_adjoint, "dopri5")


def euler():
    return _run(odeint, "euler")
