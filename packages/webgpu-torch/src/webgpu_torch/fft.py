"""Discrete Fourier transforms, as ``torch.fft``."""

from webgpu_torch_core.api.fft import *  # noqa: F403
