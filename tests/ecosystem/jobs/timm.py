import timm
import torch


def _run(name, **options):
    model = timm.create_model(name, num_classes=7, **options)
    out = model(torch.randn(2, 3, 64, 64))
    out.square().mean().backward()
    return [out, torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None])]


def resnet():
    return _run("resnet10t")


def mobilenet():
    return _run("mobilenetv3_small_050")


def efficientnet():
    return _run("efficientnet_lite0")


def vision_transformer():
    return _run("vit_tiny_patch16_224", img_size=64)


def convnext():
    return _run("convnext_atto")


def swin():
    return _run("swin_tiny_patch4_window7_224", img_size=64, window_size=2)


def features():
    model = timm.create_model("resnet10t", features_only=True).eval()
    return [each for each in model(torch.randn(1, 3, 64, 64))]


def optimizer():
    from timm.optim import create_optimizer_v2

    model = torch.nn.Linear(4, 3)
    step = create_optimizer_v2(model, "lamb", lr=0.1, weight_decay=0.01)
    for _ in range(3):
        step.zero_grad()
        model(torch.ones(2, 4)).square().sum().backward()
        step.step()
    return list(model.parameters())


def transforms():
    from PIL import Image
    from timm.data import create_transform

    image = Image.linear_gradient("L").convert("RGB").resize((80, 60))
    return create_transform((3, 32, 32), is_training=False)(image)
