import torch
import torchsde


def integrate():
    class Equation(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.drift = torch.nn.Linear(2, 2)

        def f(self, t, y):
            return self.drift(y)

        def g(self, t, y):
            return 0.1 * torch.sigmoid(y)

    equation = Equation()
    start = torch.ones(3, 2)
    noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(3, 2), entropy=7, levy_area_approximation="space-time")
    out = torchsde.sdeint(equation, start, torch.linspace(0, 1, 3), bm=noise, dt=0.1)
    out.sum().backward()
    return [out, equation.drift.weight.grad]
