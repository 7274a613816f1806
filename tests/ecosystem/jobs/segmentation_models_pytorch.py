import segmentation_models_pytorch as smp
import torch


def _run(kind):
    model = kind("resnet18", encoder_weights=None, classes=2)
    out = model(torch.randn(2, 3, 64, 64))
    loss = smp.losses.DiceLoss("multiclass")(out, torch.randint(0, 2, (2, 64, 64)))
    loss.backward()
    return [out, loss, torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None])]


def unet():
    return _run(smp.Unet)


def fpn():
    return _run(smp.FPN)


def deeplab():
    return _run(smp.DeepLabV3Plus)


def metrics():
    counts = smp.metrics.get_stats(torch.randint(0, 2, (3, 1, 8, 8)), torch.randint(0, 2, (3, 1, 8, 8)), mode="binary")
    return [smp.metrics.iou_score(*counts, reduction="micro"), smp.metrics.f1_score(*counts, reduction="macro")]
