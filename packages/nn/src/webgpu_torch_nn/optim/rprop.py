"""Rprop."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.replay.updates import Call

from webgpu_torch_nn.optim.parameterwise import ParameterwiseOptimizer, descending, options
from webgpu_torch_nn.optim.states import to_scalar

_ORDER = "lr etas step_sizes foreach maximize differentiable capturable"


class Rprop(ParameterwiseOptimizer):
    """Steps of each element's own size along the gradient's sign (Riedmiller and Braun, 1993).

    The size grows by ``etas[1]`` while the sign stays and shrinks by ``etas[0]`` when it changes; such an element rests
    for one step.

    Args:
        params, etas: as above.
        lr: the first size.
        step_sizes: the least and the largest size.
        maximize: climb instead of descending.
        foreach, capturable: accepted and without effect; the engine fuses and captures the update by itself.
        differentiable: whether autograd goes through the step, for parameters that are not leaves.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals(), _ORDER)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = to_scalar(group["lr"])
        start = complex(start, start) if parameter.is_complex() else start
        return {"step": 0.0, "prev": torch.zeros_like(parameter), "step_size": torch.full_like(parameter, start)}

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Call:
        state = self._counted(parameter, group)
        return _descend(parameter, group, state["prev"], state["step_size"], *group["etas"], *group["step_sizes"])


@descending
def _descend(
    values: Tensor, grad: Tensor, before: Tensor, sizes: Tensor, shrink: float, grow: float, least: float, most: float
) -> None:
    """Change a parameter, the gradient it remembers and the sizes of its steps."""
    agreement = grad * before
    factor = torch.where(agreement > 0, grow, torch.where(agreement < 0, shrink, torch.ones_like(agreement)))
    sizes.copy_((sizes * factor).clamp(least, most))
    grad = torch.where(agreement < 0, torch.zeros_like(grad), grad)
    values.sub_(grad.sign() * sizes)
    before.copy_(grad)
