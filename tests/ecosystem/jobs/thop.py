import thop
import torch


def convolutions():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    )  # fmt: skip
    return list(thop.profile(model, (torch.randn(1, 3, 16, 16),), verbose=False))


def recurrent():
    macs, parameters, inside = thop.profile(
        torch.nn.LSTM(4, 6), (torch.randn(5, 2, 4),), verbose=False, ret_layer_info=True
    )
    return [macs, parameters, sorted(inside), thop.clever_format([macs, parameters], "%.2f")]
