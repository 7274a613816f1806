"""Functions of functions, as ``torch.func``: batches, gradients, Jacobians, modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

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

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def functionalize(func: Callable[_Arguments, _Result], *, remove: str = "mutations") -> Callable[_Arguments, _Result]:
    """Return a function that computes the same without writing in place: here every function does.

    A tensor's memory points at a value that nothing overwrites while somebody can reach it; writing makes another one.

    Args:
        func: the function.
        remove: ``"mutations"``, or ``"mutations_and_views"``.

    Raises:
        RuntimeError: something else to remove.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with their "
            "out-of-place equivalents.\n     remove='mutations_and_views': In addition to the above, all aliasing operators "
            "{view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @wraps(func)
    def called(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return func(*args, **kwargs)

    return called
