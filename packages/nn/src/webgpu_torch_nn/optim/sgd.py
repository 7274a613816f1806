"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.record.changes import changed

from webgpu_torch_nn.optim.optimizer import rate_tensor, to_scalar
from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, gradient, options


class SGD(ParameterwiseOptimizer):
    """``p -= lr * b`` with ``b = momentum * b + (1 - dampening) * g``, where ``g = grad + weight_decay * p``.

    The first ``b`` is ``g``. With ``nesterov`` the step is along ``g + momentum * b`` (Sutskever et al., 2013).

    Args:
        params, lr, momentum, dampening, weight_decay, nesterov: as in the formula.
        maximize: climb instead of descending.
        foreach, fused: accepted and without effect; the engine fuses the update by itself.
        differentiable: must be False.

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
        defaults = options(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        values, grad = gradient(parameter, group)
        if group["momentum"] != 0:
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
                changed()
            else:
                buffer.mul_(group["momentum"]).add_(grad * (1 - group["dampening"]))
            grad = grad + buffer * group["momentum"] if group["nesterov"] else buffer
        rate = rate_tensor(values, group)
        values.sub_(grad * (to_scalar(group["lr"]) if rate is None else rate))
