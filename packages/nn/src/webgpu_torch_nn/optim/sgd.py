"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.record.changes import changed
from webgpu_torch_core.replay.updates import updating

from webgpu_torch_nn.optim.optimizer import rate_tensor, real_view
from webgpu_torch_nn.optim.parameterwise import Given, ParameterwiseOptimizer, decay, descent, options
from webgpu_torch_nn.optim.states import Named, to_scalar


class SGD(ParameterwiseOptimizer):
    """``p -= lr * b`` with ``b = momentum * b + (1 - dampening) * g``, where ``g = grad + weight_decay * p``.

    The first ``b`` is ``g``. With ``nesterov`` the step is along ``g + momentum * b`` (Sutskever et al., 2013).

    Args:
        params, lr, momentum, dampening, weight_decay, nesterov: as in the formula.
        maximize: climb instead of descending.
        foreach, fused: accepted and without effect; the engine fuses the update by itself.
        differentiable: whether autograd goes through the step, for parameters that are not leaves.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = options(locals())
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)

    takes_sparse = True

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        if parameter.grad is not None and parameter.grad.is_sparse:
            self._update_rows(parameter, parameter.grad, group)
            return
        values, grad, more = real_view(parameter), real_view(parameter.grad), decay(real_view(parameter), group)
        rate = rate_tensor(values, group)
        rate = to_scalar(group["lr"]) if rate is None else rate
        if group["momentum"] == 0:
            _descend(values, grad, rate, *more)
            return
        state = self.state[parameter]
        average = state.get("momentum_buffer")
        if average is None:
            direction = descent(values, grad, *more)
            average = state["momentum_buffer"] = direction.detach().clone()
            changed()
            values.sub_((direction + average * group["momentum"] if group["nesterov"] else average) * rate)
        else:
            _roll(values, grad, average, rate, group["momentum"], 1 - group["dampening"], group["nesterov"], *more)

    def _update_rows(self, parameter: Tensor, grad: Given, group: Named) -> None:
        """Change the rows that a sparse gradient names."""
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"]:
            grad = grad.add(parameter, alpha=group["weight_decay"])
        if group["momentum"]:
            state = self.state[parameter]
            known = state.get("momentum_buffer")
            average = grad if known is None else known * group["momentum"] + grad * (1 - group["dampening"])
            state["momentum_buffer"] = average
            grad = grad + average * group["momentum"] if group["nesterov"] else average
        parameter.add_(grad, alpha=-to_scalar(group["lr"]))


@updating
def _descend(
    values: Tensor,
    grad: Tensor,
    rate: float | Tensor,
    climbs: bool,
    decayed: float | None,
    shrinks: float | Tensor | None,
) -> None:
    """Change a parameter along its gradient."""
    values.sub_(descent(values, grad, climbs, decayed, shrinks) * rate)


@updating
def _roll(
    values: Tensor, grad: Tensor, average: Tensor, rate: float | Tensor, momentum: float, part: float, nesterov: bool,
    climbs: bool, decayed: float | None, shrinks: float | Tensor | None,
) -> None:  # fmt: skip
    """Change a running sum of gradients, and a parameter along it or along where it will point next."""
    grad = descent(values, grad, climbs, decayed, shrinks)
    average.mul_(momentum).add_(grad * part)
    values.sub_((grad + average * momentum if nesterov else average) * rate)
