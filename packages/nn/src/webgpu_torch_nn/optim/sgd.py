"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.capture import live, made_state

from webgpu_torch_nn.optim.optimizer import Optimizer, rate_tensor, to_scalar


class SGD(Optimizer):
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
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        if differentiable:
            raise ValueError("differentiable=True is not supported: the step runs outside autograd")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; returns what ``closure`` returned."""
        loss = self._evaluate(closure)
        self._rely_on_state()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(parameter, group)
        return loss

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        grad: Any = parameter.grad
        grad = -grad if group["maximize"] else grad
        if isinstance(group["weight_decay"], Tensor) or group["weight_decay"] != 0:
            grad = grad + parameter * live(lambda: to_scalar(group["weight_decay"]))
        if group["momentum"] != 0:
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                made_state()
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(live(lambda: group["momentum"])).add_(grad * live(lambda: 1 - group["dampening"]))
            grad = grad + buffer * live(lambda: group["momentum"]) if group["nesterov"] else buffer
        rate = rate_tensor(parameter, group)
        parameter.sub_(grad * (live(lambda: to_scalar(group["lr"])) if rate is None else rate))
