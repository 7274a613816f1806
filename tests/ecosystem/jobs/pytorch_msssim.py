import torch
from pytorch_msssim import MS_SSIM, SSIM, ms_ssim, ssim


def similarity():
    x = torch.rand(2, 3, 32, 32, requires_grad=True)
    y = (x.detach() + 0.1 * torch.rand(2, 3, 32, 32)).clamp(0, 1)
    found = [ssim(x, y, data_range=1, size_average=False), SSIM(data_range=1, channel=3, nonnegative_ssim=True)(x, y)]
    found[1].backward()
    return [*found, x.grad]


def scales():
    x = torch.rand(1, 1, 176, 176)
    y = x * 0.8 + 0.1
    return [ms_ssim(x, y, data_range=1, size_average=False), 1 - MS_SSIM(data_range=1, channel=1)(x, y)]
