import torch
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.deepvit import DeepViT


def _run(model):
    out = model(torch.randn(2, 3, 32, 32))
    out.square().sum().backward()
    return [out, torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None])]


def vit():
    return _run(ViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=48))


def simple():
    return _run(SimpleViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=48))


def deep():
    return _run(DeepViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=48))


def cait():
    return _run(CaiT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, cls_depth=1, heads=2, mlp_dim=48))
