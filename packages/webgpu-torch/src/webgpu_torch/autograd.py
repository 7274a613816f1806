"""Automatic differentiation, as ``torch.autograd``."""

from webgpu_torch_core.autograd import Function as Function
from webgpu_torch_core.autograd import backward as backward
from webgpu_torch_core.autograd import enable_grad as enable_grad
from webgpu_torch_core.autograd import grad as grad
from webgpu_torch_core.autograd import inference_mode as inference_mode
from webgpu_torch_core.autograd import no_grad as no_grad
from webgpu_torch_core.autograd import set_grad_enabled as set_grad_enabled
