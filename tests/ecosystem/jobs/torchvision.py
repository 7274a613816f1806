import torch
import torchvision


def _run(name, size=64, **options):
    model = torchvision.models.get_model(name, weights=None, **options)
    out = model(torch.randn(2, 3, size, size))
    out.square().mean().backward()
    return [out, torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None])]


def resnet18():
    return _run("resnet18")


def mobilenet():
    return _run("mobilenet_v3_small")


def shufflenet():
    return _run("shufflenet_v2_x0_5")


def vit():
    return _run("vit_b_32", 32, image_size=32)


def transforms():
    from torchvision.transforms import v2

    chain = v2.Compose(
        [
            v2.Resize((20, 20), antialias=True),
            v2.CenterCrop(16),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
            v2.GaussianBlur(3),
        ]
    )
    return [
        chain(torch.randint(0, 256, (3, 30, 40), dtype=torch.uint8)),
        v2.RandomAffine(15)(torch.rand(3, 12, 12)),
        v2.ColorJitter(0.3, 0.3)(torch.rand(3, 8, 8)),
    ]


def boxes():
    from torchvision import ops

    one = torch.rand(5, 4).cumsum(1)
    return [
        ops.box_iou(one, one),
        ops.box_convert(one, "xyxy", "cxcywh"),
        ops.generalized_box_iou(one, one),
        ops.sigmoid_focal_loss(torch.randn(4), torch.ones(4)),
    ]


def annotated():
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    boxes = tv_tensors.BoundingBoxes(torch.tensor([[1, 2, 8, 9]]), format="XYXY", canvas_size=(16, 16))
    image, found = v2.RandomHorizontalFlip(1.0)(tv_tensors.Image(torch.rand(3, 16, 16)), boxes)
    return [torch.as_tensor(image), torch.as_tensor(found), type(found).__name__]


def grids():
    return torchvision.utils.make_grid(torch.rand(5, 3, 6, 6), nrow=3)
