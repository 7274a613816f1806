"""Discrete Fourier transforms, as ``torch.fft``."""

from webgpu_torch_core.fft import *  # noqa: F403
