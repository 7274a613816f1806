import kornia
import torch


def filters():
    x = torch.rand(2, 3, 20, 24, requires_grad=True)
    out = [
        kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
        kornia.filters.sobel(x),
        kornia.filters.median_blur(x, 3),
        kornia.filters.canny(x)[0],
    ]
    sum(each.sum() for each in out[:2]).backward()
    return [*out, x.grad]


def geometry():
    x = torch.rand(1, 3, 16, 16)
    matrix = torch.tensor([[[1.0, 0.1, 1.0], [0.0, 0.9, 0.5], [0.0, 0.0, 1.0]]])
    return [
        kornia.geometry.rotate(x, torch.tensor([20.0])),
        kornia.geometry.resize(x, (8, 20)),
        kornia.geometry.warp_perspective(x, matrix, (16, 16)),
    ]


def color():
    x = torch.rand(1, 3, 8, 8)
    return [
        kornia.color.rgb_to_hsv(x),
        kornia.color.rgb_to_lab(x),
        kornia.color.rgb_to_grayscale(x),
        kornia.enhance.equalize(x),
    ]


def augmentation():
    chain = kornia.augmentation.AugmentationSequential(
        kornia.augmentation.RandomHorizontalFlip(p=1.0), kornia.augmentation.RandomAffine(10.0, p=1.0)
    )
    return chain(torch.rand(2, 3, 12, 12))


def losses():
    return [
        kornia.losses.ssim_loss(torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16), 5),
        kornia.losses.total_variation(torch.rand(2, 3, 8, 8)),
    ]


def morphology():
    return kornia.morphology.dilation(torch.rand(1, 1, 10, 10), torch.ones(3, 3))
