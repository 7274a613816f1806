"""Optimisers, as ``torch.optim``."""

import webgpu_torch_nn.optim as _optim
from webgpu_torch_nn.optim import *  # noqa: F403
from webgpu_torch_nn.optim import lr_scheduler as lr_scheduler
from webgpu_torch_nn.optim import optimizer as optimizer
from webgpu_torch_nn.optim import swa_utils as swa_utils

from ._submodules import offer as _offer

_offer(_optim, __name__)
