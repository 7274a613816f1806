"""Adagrad."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import Given, ParameterwiseOptimizer, descending, options, rate
from webgpu_torch_nn.optim.states import Named

_ORDER = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"


class Adagrad(ParameterwiseOptimizer):
    """``p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`` with ``s`` the sum of ``g²`` (Duchi et al., 2011).

    Args:
        params, lr, lr_decay, eps: as in the formula.
        weight_decay: adds ``weight_decay * p`` to the gradient.
        initial_accumulator_value: what the sum starts with.
        maximize: climb instead of descending.
        foreach, fused: accepted and without effect; the engine fuses the update by itself.
        differentiable: whether autograd goes through the step, for parameters that are not leaves.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if not lr_decay >= 0.0:
            raise ValueError(f"Invalid lr_decay value: {lr_decay}")
        if not initial_accumulator_value >= 0.0:
            raise ValueError(f"Invalid initial_accumulator_value value: {initial_accumulator_value}")
        super().__init__(params, options(locals(), _ORDER))
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter] = self._seen(self._begin(parameter, group))

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        value = complex(start, start) if parameter.is_complex() else start
        return {"step": 0.0, "sum": torch.full_like(parameter, value)}

    def share_memory(self) -> None:
        """Do nothing: worker processes receive copies."""

    takes_sparse = True

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call | None:
        state = self._counted(parameter, group)
        size = rate(parameter, group) / (1 + (state["step"] - 1) * group["lr_decay"])
        if parameter.grad is not None and parameter.grad.is_sparse:
            self._update_rows(parameter, parameter.grad, state, group, size)
            return None
        return _descend(parameter, group, state["sum"], size, group["eps"])

    def _update_rows(self, parameter: Tensor, grad: Given, state: Named, group: Named, size: Given) -> None:
        """Change the rows that a sparse gradient names.

        Raises:
            RuntimeError: weights are to decay.
        """
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = (-grad if group["maximize"] else grad).coalesce()
        places, values = tuple(grad.indices()), grad.values()
        total = state["sum"][places] + values * values
        state["sum"][places] = total
        parameter[places] = parameter[places] - values / (total.sqrt() + group["eps"]) * size


@descending
def _descend(values: Tensor, grad: Tensor, total: Tensor, size: float | Tensor, eps: float) -> None:
    """Change a parameter and the sum of its gradient's squares."""
    total.add_(grad * grad)
    values.sub_(grad / (total.sqrt() + eps) * size)
