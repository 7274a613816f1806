"""Jacobians, Hessians and their products with vectors, as ``torch.autograd.functional``."""

from webgpu_torch_core.autograd.functional import hessian as hessian
from webgpu_torch_core.autograd.functional import hvp as hvp
from webgpu_torch_core.autograd.functional import jacobian as jacobian
from webgpu_torch_core.autograd.functional import jvp as jvp
from webgpu_torch_core.autograd.functional import standard_basis as _standard_basis
from webgpu_torch_core.autograd.functional import vhp as vhp
from webgpu_torch_core.autograd.functional import vjp as vjp

_construct_standard_basis_for = _standard_basis

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
