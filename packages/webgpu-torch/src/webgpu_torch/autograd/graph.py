"""Looking into the gradient graph and at what it saves, as ``torch.autograd.graph``."""

from webgpu_torch_core.autograd.graph import GradientEdge as GradientEdge
from webgpu_torch_core.autograd.graph import Node as Node
from webgpu_torch_core.autograd.graph import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from webgpu_torch_core.autograd.graph import get_gradient_edge as get_gradient_edge
from webgpu_torch_core.autograd.graph import increment_version as increment_version
from webgpu_torch_core.autograd.graph import register_multi_grad_hook as register_multi_grad_hook
from webgpu_torch_core.autograd.graph import save_on_cpu as save_on_cpu
from webgpu_torch_core.autograd.graph import saved_tensors_hooks as saved_tensors_hooks
from webgpu_torch_core.autograd.mutation import allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors
