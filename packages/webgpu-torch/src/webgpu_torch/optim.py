"""Optimisers, as ``torch.optim``."""

from webgpu_torch_nn.optim import *  # noqa: F403
from webgpu_torch_nn.optim import lr_scheduler as lr_scheduler
from webgpu_torch_nn.optim import swa_utils as swa_utils
