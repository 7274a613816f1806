import torch
from entmax import Entmax15, SparsemaxLoss, entmax15, entmax_bisect, sparsemax


def mappings():
    x = torch.randn(4, 7, requires_grad=True)
    found = [sparsemax(x, -1), entmax15(x, -1), entmax_bisect(x, alpha=1.3), Entmax15(0)(x)]
    torch.stack([(each * torch.arange(7.0)).square().sum() for each in found]).sum().backward()
    return [*found, x.grad]


def losses():
    x = torch.randn(5, 6, requires_grad=True)
    loss = SparsemaxLoss()(x, torch.tensor([0, 3, 2, 5, 1]))
    loss.backward()
    return [loss, x.grad]
