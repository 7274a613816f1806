"""Forward-mode differentiation, as ``torch.autograd.forward_ad``."""

from webgpu_torch_core.autograd.forward_ad import UnpackedDualTensor as UnpackedDualTensor
from webgpu_torch_core.autograd.forward_ad import dual_level as dual_level
from webgpu_torch_core.autograd.forward_ad import enter_dual_level as enter_dual_level
from webgpu_torch_core.autograd.forward_ad import exit_dual_level as exit_dual_level
from webgpu_torch_core.autograd.forward_ad import make_dual as make_dual
from webgpu_torch_core.autograd.forward_ad import unpack_dual as unpack_dual
