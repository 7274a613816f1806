import torch
from neuralop.losses import H1Loss, LpLoss
from neuralop.models import FNO


def fno():
    model = FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2)
    out = model(torch.randn(2, 1, 16, 16))
    loss = LpLoss(d=2)(out, torch.randn(2, 1, 16, 16))
    loss.backward()
    return [out, loss]


def losses():
    return H1Loss(d=2)(torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8))
