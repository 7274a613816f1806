"""Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.capture import live, made_state, perform

from webgpu_torch_nn.optim.optimizer import Optimizer, rate_tensor, real_view, to_scalar


class Adam(Optimizer):
    """``p -= lr * m̂ / (sqrt(v̂) + eps)`` with bias-corrected running means of the gradient and its square.

    ``m = beta1 m + (1 - beta1) g``, ``v = beta2 v + (1 - beta2) g²``, ``m̂ = m / (1 - beta1ᵗ)``,
    ``v̂ = v / (1 - beta2ᵗ)`` (Kingma and Ba, 2014); ``amsgrad`` uses the largest ``v`` so far (Reddi et al., 2018).

    Args:
        params, lr, betas, eps, amsgrad: as in the formula.
        weight_decay: adds ``weight_decay * p`` to the gradient, or with ``decoupled_weight_decay`` shrinks ``p`` by
            ``lr * weight_decay`` instead (Loshchilov and Hutter, 2017).
        maximize: climb instead of descending.
        foreach, fused, capturable: accepted and without effect; the engine fuses and captures the update by itself. In a
            function under ``torch.compile`` the step count, a learning rate that a schedule changes and the other numbers
            of the group take effect in replays too.
        differentiable: must be False.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if differentiable:
            raise ValueError("differentiable=True is not supported: the step runs outside autograd")
        defaults = {
            "lr": lr,
            "betas": tuple(to_scalar(beta) for beta in betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
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
                        self._update(parameter, self._state_of(parameter, group), group)
        return loss

    def _state_of(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = self.state[parameter]
        if not state:
            made_state()
            state["step"] = 0.0
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = torch.zeros_like(parameter)
        return state

    @staticmethod
    def _update(parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        perform(lambda: state.__setitem__("step", state["step"] + 1))
        parameter, grad = real_view(parameter), real_view(parameter.grad)
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                parameter.mul_(_shrinkage(parameter, group))
            else:
                grad = grad + parameter * live(lambda: group["weight_decay"])
        exp_avg, exp_avg_sq = real_view(state["exp_avg"]), real_view(state["exp_avg_sq"])
        exp_avg.lerp_(grad, live(lambda: 1 - group["betas"][0]))
        exp_avg_sq.mul_(live(lambda: group["betas"][1]))
        exp_avg_sq.add_(grad * grad * live(lambda: 1 - group["betas"][1]))
        second_moment = exp_avg_sq
        if group["amsgrad"]:
            second_moment = real_view(state["max_exp_avg_sq"])
            second_moment.copy_(torch.maximum(second_moment, exp_avg_sq))
        scale = live(lambda: (1 - group["betas"][1] ** state["step"]) ** 0.5)
        denominator = (second_moment.sqrt() / scale).add_(live(lambda: group["eps"]))
        parameter.add_(exp_avg / denominator * _step_size(parameter, state, group))


def _shrinkage(parameter: Tensor, group: dict[str, Any]) -> Any:
    """Return the factor of decoupled weight decay: a tensor where the learning rate is one."""
    rate = rate_tensor(parameter, group)
    if rate is not None:
        return 1 - rate * live(lambda: group["weight_decay"])
    return live(lambda: 1 - to_scalar(group["lr"]) * group["weight_decay"])


def _step_size(parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
    """Return the negative learning rate with the first moment's bias correction."""
    rate = rate_tensor(parameter, group)
    if rate is not None:
        return rate * live(lambda: -1 / (1 - group["betas"][0] ** state["step"]))
    return live(lambda: -to_scalar(group["lr"]) / (1 - group["betas"][0] ** state["step"]))
