import julius
import torch


def resampling():
    x = torch.randn(2, 400, requires_grad=True)
    result = julius.resample_frac(x, 4, 5)
    result.square().sum().backward()
    return [result, x.grad, julius.resample_frac(x, 3, 2, full=True)]


def filters():
    x = torch.randn(2, 400)
    return [
        julius.lowpass_filter(x, 0.1), julius.highpass_filter(x, 0.1, fft=True), julius.bandpass_filter(x, 0.1, 0.3),
        julius.split_bands(x, 1000, n_bands=4),
    ]  # fmt: skip


def convolution():
    x, weight = torch.randn(1, 2, 300, requires_grad=True), torch.randn(3, 2, 40, requires_grad=True)
    result = julius.fft_conv1d(x, weight, stride=2)
    result.square().mean().backward()
    return [result, x.grad, weight.grad]
