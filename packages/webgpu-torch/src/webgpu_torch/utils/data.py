"""Datasets and loaders, as ``torch.utils.data``."""

from webgpu_torch_nn.utils.data import *  # noqa: F403
