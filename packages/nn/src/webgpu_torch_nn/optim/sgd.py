"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.changes import changed
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import Given, ParameterwiseOptimizer, descending, options, rate
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

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call | None:
        grad: Given = parameter.grad
        if grad.is_sparse:
            self._update_rows(parameter, grad, group)
            return None
        lr, momentum = rate(parameter, group), group["momentum"]
        if momentum == 0:
            return _descend(parameter, group, lr)
        state, nesterov = self.state[parameter], group["nesterov"]
        average = state.get("momentum_buffer")
        if average is None:
            average = state["momentum_buffer"] = torch.empty_like(grad)
            changed()
            return _roll(parameter, group, average, lr, momentum if nesterov else None, None, nesterov)
        return _roll(parameter, group, average, lr, momentum, 1 - group["dampening"], nesterov)

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


@descending
def _descend(values: Tensor, grad: Tensor, rate: float | Tensor) -> None:
    """Change a parameter along its gradient."""
    values.sub_(grad * rate)


@descending
def _roll(
    values: Tensor, grad: Tensor, average: Tensor, rate: float | Tensor,
    momentum: float | None, part: float | None, nesterov: bool,
) -> None:  # fmt: skip
    """Change a running sum of gradients, which begins with one, and a parameter along it or along where it will point next."""
    if part is None:
        average.copy_(grad.detach())
    else:
        average.mul_(momentum).add_(grad * part)
    values.sub_((grad + average * momentum if nesterov else average) * rate)
