"""Programs of several processes, as ``torch.distributed``."""

from webgpu_torch_nn import distributed as _distributed
from webgpu_torch_nn.distributed import *
from webgpu_torch_nn.distributed import checkpoint as checkpoint
from webgpu_torch_nn.distributed import device_mesh as device_mesh
from webgpu_torch_nn.distributed import distributed_c10d as distributed_c10d
from webgpu_torch_nn.distributed import fsdp as fsdp
from webgpu_torch_nn.distributed import tensor as tensor

from .._submodules import offer as _offer

_offer(_distributed, __name__)
