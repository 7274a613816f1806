import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation


def flow():
    made = Flow(
        CompositeTransform([ReversePermutation(2), MaskedAffineAutoregressiveTransform(2, 8)]), StandardNormal([2])
    )
    loss = -made.log_prob(torch.randn(16, 2)).mean()
    loss.backward()
    return [
        loss,
        torch.stack([each.grad.norm() for each in made.parameters() if each.grad is not None]),
        made.sample(4),
    ]
