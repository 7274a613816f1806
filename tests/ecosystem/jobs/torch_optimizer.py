import torch
import torch_optimizer


def _steps(kind, **options):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    optimizer = kind(model.parameters(), **options)
    x, y = torch.randn(12, 4), torch.randn(12, 1)
    for _ in range(4):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return list(model.parameters())


def adaptive():
    kinds = (
        torch_optimizer.AdaBelief,
        torch_optimizer.DiffGrad,
        torch_optimizer.Lamb,
        torch_optimizer.RAdam,
        torch_optimizer.Yogi,
    )
    return [_steps(each, lr=1e-2) for each in kinds]


def others():
    kinds = (torch_optimizer.AggMo, torch_optimizer.NovoGrad, torch_optimizer.QHM, torch_optimizer.SGDW)
    return [_steps(each, lr=1e-2, **({"momentum": 0.9} if each is torch_optimizer.QHM else {})) for each in kinds]


def looking_ahead():
    model = torch.nn.Linear(3, 1)
    optimizer = torch_optimizer.Lookahead(torch.optim.SGD(model.parameters(), lr=0.1), k=2)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()
    return list(model.parameters())
