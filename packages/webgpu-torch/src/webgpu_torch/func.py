"""Functions of functions, as ``torch.func``: batches, gradients, Jacobians, modules as functions of their parameters."""

from __future__ import annotations

from webgpu_torch_core.func import grad as grad
from webgpu_torch_core.func import grad_and_value as grad_and_value
from webgpu_torch_core.func import hessian as hessian
from webgpu_torch_core.func import jacfwd as jacfwd
from webgpu_torch_core.func import jacrev as jacrev
from webgpu_torch_core.func import jvp as jvp
from webgpu_torch_core.func import linearize as linearize
from webgpu_torch_core.func import vjp as vjp
from webgpu_torch_core.func import vmap as vmap
from webgpu_torch_nn.func import functional_call as functional_call
from webgpu_torch_nn.func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from webgpu_torch_nn.func import stack_module_state as stack_module_state
