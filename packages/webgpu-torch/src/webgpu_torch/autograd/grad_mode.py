"""Switches for recording gradients, as ``torch.autograd.grad_mode``."""

from webgpu_torch_core.autograd import enable_grad as enable_grad
from webgpu_torch_core.autograd import inference_mode as inference_mode
from webgpu_torch_core.autograd import no_grad as no_grad
from webgpu_torch_core.autograd import set_grad_enabled as set_grad_enabled
from webgpu_torch_core.record.grad_mode import set_multithreading_enabled as set_multithreading_enabled
