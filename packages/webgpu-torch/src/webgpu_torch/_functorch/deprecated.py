"""The functions of ``torch.func`` under the names of ``functorch``, which warn that they have moved."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from webgpu_torch_core.notices import warn

from .. import func
from . import make_functional as _make

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _moved(function: Callable[_Arguments, _Result], now: str = "") -> Callable[_Arguments, _Result]:
    @wraps(function)
    def warned(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        name = function.__name__
        instead = now or f"torch.func.{name}"
        warn(
            f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is deprecated "
            f"as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use `{instead}` "
            "instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more details "
            "https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
        )
        return function(*args, **kwargs)

    return warned


grad = _moved(func.grad)
grad_and_value = _moved(func.grad_and_value)
hessian = _moved(func.hessian)
jacfwd = _moved(func.jacfwd)
jacrev = _moved(func.jacrev)
jvp = _moved(func.jvp)
vjp = _moved(func.vjp)
vmap = _moved(func.vmap, "torch.vmap")
functionalize = _moved(func.functionalize)
make_functional = _moved(_make.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _moved(_make.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _moved(_make.combine_state_for_ensemble, "torch.func.stack_module_state")
