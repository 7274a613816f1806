"""Checking gradients against finite differences, as ``torch.autograd.gradcheck``."""

from webgpu_torch_core.autograd.gradcheck import GradcheckError as GradcheckError
from webgpu_torch_core.autograd.gradcheck import get_analytical_jacobian as get_analytical_jacobian
from webgpu_torch_core.autograd.gradcheck import get_numerical_jacobian as get_numerical_jacobian
from webgpu_torch_core.autograd.gradcheck import gradcheck as gradcheck
from webgpu_torch_core.autograd.gradcheck import gradgradcheck as gradgradcheck
