import torch
from ema_pytorch import EMA
from lion_pytorch import Lion
from torch_ema import ExponentialMovingAverage


def _train(step, parameters, update):
    x = torch.randn(8, 3)
    layer = parameters
    for _ in range(4):
        step.zero_grad()
        layer(x).square().mean().backward()
        step.step()
        update()


def torch_ema():
    layer = torch.nn.Linear(3, 2)
    average = ExponentialMovingAverage(layer.parameters(), decay=0.9)
    _train(torch.optim.SGD(layer.parameters(), lr=0.1), layer, average.update)
    with average.average_parameters():
        return [each.clone() for each in layer.parameters()]


def ema_pytorch():
    layer = torch.nn.Linear(3, 2)
    average = EMA(layer, beta=0.9, update_after_step=1, update_every=1)
    _train(torch.optim.SGD(layer.parameters(), lr=0.1), layer, average.update)
    return list(average.ema_model.parameters())


def lion():
    layer = torch.nn.Linear(3, 2)
    _train(Lion(layer.parameters(), lr=0.01, weight_decay=0.1), layer, lambda: None)
    return list(layer.parameters())
