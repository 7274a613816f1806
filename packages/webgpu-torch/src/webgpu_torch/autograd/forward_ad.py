"""Forward-mode differentiation, as ``torch.autograd.forward_ad``."""

from webgpu_torch_core.autograd import forward_ad as _core
from webgpu_torch_core.autograd.forward_ad import UnpackedDualTensor as UnpackedDualTensor
from webgpu_torch_core.autograd.forward_ad import dual_level as dual_level
from webgpu_torch_core.autograd.forward_ad import enter_dual_level as enter_dual_level
from webgpu_torch_core.autograd.forward_ad import exit_dual_level as exit_dual_level
from webgpu_torch_core.autograd.forward_ad import make_dual as make_dual
from webgpu_torch_core.autograd.forward_ad import unpack_dual as unpack_dual


def __getattr__(name: str) -> int:
    """Answer how deep the level is at present, which programs look up here."""
    if name == "_current_level":
        return _core._current_level
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
