"""Datasets and loaders, as ``torch.utils.data``."""

from webgpu_torch_nn.utils.data import *

from . import _utils as _utils
from . import dataloader as dataloader
from . import datapipes as datapipes
from . import dataset as dataset
from . import distributed as distributed
from . import sampler as sampler
