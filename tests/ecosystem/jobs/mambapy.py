import torch
from mambapy.mamba import Mamba, MambaConfig


def forward():
    model = Mamba(MambaConfig(d_model=8, n_layers=2))
    out = model(torch.randn(2, 12, 8))
    out.square().sum().backward()
    return [out, torch.stack([each.grad.norm() for each in model.parameters()])]
