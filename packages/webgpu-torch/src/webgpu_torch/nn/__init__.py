"""Modules, as ``torch.nn``."""

from webgpu_torch_nn import *  # noqa: F403
from webgpu_torch_nn import init as init
from webgpu_torch_nn import utils as utils

from . import functional as functional
