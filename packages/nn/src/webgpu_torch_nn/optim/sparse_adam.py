"""Adam for gradients that name only some rows."""

from __future__ import annotations

import math

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.parameterwise import Given, ParameterwiseOptimizer, options
from webgpu_torch_nn.optim.states import Named, to_scalar


class SparseAdam(ParameterwiseOptimizer):
    """Adam's rule (Kingma and Ba, 2015) for the elements that a sparse gradient names: averages of the others do not decay.

    ``m += (1 - b1) * (g - m)``, ``v += (1 - b2) * (g² - v)``, ``p -= lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps)``.

    Args:
        params, lr, betas, eps: as in the formula.
        maximize: climb instead of descending.

    Raises:
        ValueError: an option is out of range, or a parameter is sparse or complex.
    """

    takes_sparse = True

    def __init__(
        self,
        params: Given,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        defaults = options(locals())
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, defaults)
        places = [
            ([number, position], parameter)
            for number, group in enumerate(self.param_groups)
            for position, parameter in enumerate(group["params"])
        ]
        for title, found, rest in (
            ("Sparse", [place for place, each in places if each.is_sparse], "requires dense parameter tensors"),
            ("Complex", [place for place, each in places if each.is_complex()], "does not support complex parameters"),
        ):
            if found:
                raise ValueError(f"{title} params at indices {found}: SparseAdam {rest}")

    def _begin(self, parameter: Tensor, group: Named) -> Named:
        return {"step": 0, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}

    def _cast(self, parameter: Tensor, value: Given, key: Given = None) -> Given:
        # PyTorch counts these steps by a number of Python's.
        return int(to_scalar(value)) if key == "step" else super()._cast(parameter, value, key)

    def _update(self, parameter: Tensor, group: Named) -> None:
        grad: Given = parameter.grad
        if grad is None or not grad.is_sparse:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        state = self._counted(parameter, group)
        grad = (-grad if group["maximize"] else grad).coalesce()
        places, values = tuple(grad.indices()), grad.values()
        first, second = group["betas"]
        mean, square = state["exp_avg"][places], state["exp_avg_sq"][places]
        mean = mean + (values - mean) * (1 - first)
        square = square + (values * values - square) * (1 - second)
        state["exp_avg"][places], state["exp_avg_sq"][places] = mean, square
        size = to_scalar(group["lr"]) * math.sqrt(1 - second ** state["step"]) / (1 - first ** state["step"])
        parameter[places] = parameter[places] - mean / (square.sqrt() + group["eps"]) * size
