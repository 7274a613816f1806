import torch
from captum.attr import (
    DeepLift,
    GradientShap,
    InputXGradient,
    IntegratedGradients,
    LayerGradCam,
    Occlusion,
    Saliency,
)


def _net():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 64, 3)
    ).eval()


def gradients():
    net, x = _net(), torch.randn(2, 1, 8, 8, requires_grad=True)
    return [
        IntegratedGradients(net).attribute(x, target=1, n_steps=8),
        Saliency(net).attribute(x, target=0),
        InputXGradient(net).attribute(x, target=2),
    ]


def deep():
    return DeepLift(_net()).attribute(torch.randn(2, 1, 8, 8), target=1)


def occlusion():
    return Occlusion(_net()).attribute(
        torch.randn(1, 1, 8, 8), sliding_window_shapes=(1, 4, 4), strides=(1, 4, 4), target=1
    )


def layers():
    net = _net()
    return LayerGradCam(net, net[0]).attribute(torch.randn(2, 1, 8, 8), target=1)


def shapley():
    return [
        GradientShap(_net()).attribute(
            torch.randn(2, 1, 8, 8), baselines=torch.zeros(2, 1, 8, 8), target=0, n_samples=3
        )
    ]
