"""Modules, as ``torch.nn``."""

from webgpu_torch_nn import *  # noqa: F403
from webgpu_torch_nn import init as init
from webgpu_torch_nn import modules as modules
from webgpu_torch_nn import parameter as parameter
from webgpu_torch_nn import utils as utils

from . import attention as attention
from . import functional as functional
