import tempfile

import torch
from ema_pytorch import EMA, PostHocEMA


def average():
    model = torch.nn.Linear(4, 3)
    average = EMA(model, beta=0.9, update_after_step=1, update_every=1)
    for step in range(6):
        with torch.no_grad():
            model.weight.add_(torch.randn(3, 4) * 0.1)
        average.update()
    return [average(torch.ones(2, 4)), average.ema_model.weight, len(average.state_dict())]


def afterwards():
    with tempfile.TemporaryDirectory() as place:
        model = torch.nn.Linear(4, 3)
        averages = PostHocEMA(
            model, sigma_rels=(0.05, 0.3), update_every=1, checkpoint_every_num_steps=2, checkpoint_folder=place
        )
        for _ in range(6):
            with torch.no_grad():
                model.weight.mul_(0.9)
            averages.update()
        return averages.synthesize_ema_model(sigma_rel=0.15)(torch.ones(1, 4))
