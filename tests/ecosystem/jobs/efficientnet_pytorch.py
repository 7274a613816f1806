import torch
from efficientnet_pytorch import EfficientNet


def classification():
    model = EfficientNet.from_name("efficientnet-b0", num_classes=5, dropout_rate=0.0, drop_connect_rate=0.0)
    x = torch.randn(2, 3, 64, 64)
    model(x).square().mean().backward()
    return [model._fc.weight.grad, model._conv_stem.weight.grad, model.eval()(x)]


def features():
    model = EfficientNet.from_name("efficientnet-b1", image_size=64).eval()
    with torch.no_grad():
        return list(model.extract_endpoints(torch.randn(1, 3, 64, 64)).values())
