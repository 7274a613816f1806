"""Functions of functions, as ``torch.func``: batches, gradients, Jacobians."""

from __future__ import annotations

from . import functions as functions
from . import rules as rules
from .derivatives import grad as grad
from .derivatives import grad_and_value as grad_and_value
from .derivatives import hessian as hessian
from .derivatives import jacfwd as jacfwd
from .derivatives import jacrev as jacrev
from .derivatives import jvp as jvp
from .derivatives import linearize as linearize
from .derivatives import vjp as vjp
from .mapping import vmap as vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"]
