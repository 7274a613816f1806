"""Jacobians, Hessians and their products with vectors, as ``torch.autograd.functional``."""

from webgpu_torch_core.autograd.functional import hessian as hessian
from webgpu_torch_core.autograd.functional import hvp as hvp
from webgpu_torch_core.autograd.functional import jacobian as jacobian
from webgpu_torch_core.autograd.functional import jvp as jvp
from webgpu_torch_core.autograd.functional import standard_basis as _construct_standard_basis_for
from webgpu_torch_core.autograd.functional import vhp as vhp
from webgpu_torch_core.autograd.functional import vjp as vjp

__all__ = ["_construct_standard_basis_for", "hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
