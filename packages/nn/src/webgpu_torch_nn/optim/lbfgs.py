"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.line_search import strong_wolfe
from webgpu_torch_nn.optim.optimizer import Optimizer, arguments
from webgpu_torch_nn.optim.states import to_scalar

Point = tuple[float, Tensor]

#: what a step hands on to the next one, in the order of PyTorch's files
KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last changes of gradients (Nocedal and Wright, "Numerical Optimization", chapter 7).

    Every inner iteration reads the loss and a few norms from the device, and may call the closure several times.

    Args:
        params: tensors; one group only.
        lr: scales every step.
        max_iter, max_eval: the most iterations, and evaluations of the closure, in one :meth:`step`; 1.25 evaluations
            for each iteration if None.
        tolerance_grad, tolerance_change: where the gradient, or the change, is so small that a step ends.
        history_size: how many changes are remembered.
        line_search_fn: "strong_wolfe", or None to take every step whole.

    Raises:
        ValueError: there are several groups, or the learning rate is negative.
        RuntimeError: the line search is neither None nor "strong_wolfe".
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, arguments(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    # All parameters as one vector.

    @staticmethod
    def _flat(tensor: Tensor) -> Tensor:
        return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).reshape(-1)

    def _gradient(self) -> Tensor:
        return torch.cat(
            [self._flat(torch.zeros_like(each) if each.grad is None else each.grad) for each in self._params]
        )

    def _move(self, size: float, direction: Tensor) -> None:
        start = 0
        for parameter in self._params:
            values = torch.view_as_real(parameter) if parameter.is_complex() else parameter
            count = values.numel()
            values.add_(direction[start : start + count].view_as(values) * size)
            start += count

    def _evaluate_at(self, closure: Callable[[], Any], origin: list[Tensor], size: float, direction: Tensor) -> Point:
        """Return loss and gradient at a distance along a direction; the parameters stay where they were."""
        self._move(size, direction)
        loss = float(closure())
        gradient = self._gradient()
        for parameter, before in zip(self._params, origin, strict=True):
            parameter.copy_(before)
        return loss, gradient

    # The step.

    @staticmethod
    def _direction(gradient: Tensor, state: dict[str, Any], kept: dict[str, Any], history_size: int) -> Tensor:
        """Return the two-loop recursion's direction, after adding the last change to the history."""
        if state["n_iter"] == 1:
            kept.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        change, step = gradient - kept["prev_flat_grad"], kept["d"] * kept["t"]
        curvature = change.dot(step)
        if curvature > 1e-10:
            for name, value in (("old_dirs", change), ("old_stps", step), ("ro", 1.0 / curvature)):
                if len(kept[name]) == history_size:
                    kept[name].pop(0)
                kept[name].append(value)
            kept["H_diag"] = curvature / change.dot(change)
        direction = -gradient
        # PyTorch's files hold the weights, too.
        weights = state.setdefault("al", [None] * history_size)
        held = len(kept["old_dirs"])
        for index in reversed(range(held)):
            weights[index] = kept["old_stps"][index].dot(direction) * kept["ro"][index]
            direction = direction - kept["old_dirs"][index] * weights[index]
        direction = direction * kept["H_diag"]
        for index in range(held):
            back = kept["old_dirs"][index].dot(direction) * kept["ro"][index]
            direction = direction + kept["old_stps"][index] * (weights[index] - back)
        return direction

    def _advance(
        self, closure: Callable[[], Any], point: Point, slope: float, kept: dict[str, Any], last: bool, most: int
    ) -> tuple[Point, int]:
        """Go along ``kept["d"]``, set ``kept["t"]``, and return the new point and the evaluations it took, of a search ``most``."""
        group = self.param_groups[0]
        loss, gradient = point
        if group["line_search_fn"] is None:
            self._move(kept["t"], kept["d"])
            if last:
                # Nobody would look at the loss at the end.
                return (loss, gradient), 0
            loss = float(closure())
            return (loss, self._gradient()), 1
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        origin = [parameter.clone() for parameter in self._params]
        loss, gradient, kept["t"], evaluations = strong_wolfe(
            lambda size: self._evaluate_at(closure, origin, size, kept["d"]),
            kept["d"],
            kept["t"],
            point,
            slope,
            most=most,
        )
        self._move(kept["t"], kept["d"])
        return (loss, gradient), evaluations

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Go on until the gradient or the change is small, or the limits are met; returns the first loss.

        Args:
            closure: computes the loss and its gradients, and returns the loss.
        """
        with torch.no_grad():
            return self._iterate(torch.enable_grad()(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        point: Point = (float(first), self._gradient())
        evaluations, iterations = 1, 0
        state["func_evals"] += 1
        rate = to_scalar(group["lr"])
        if float(point[1].abs().max()) <= group["tolerance_grad"]:
            return first
        kept = {name: state.get(name) for name in KEPT}
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            kept["d"] = self._direction(point[1], state, kept, group["history_size"])
            kept["prev_flat_grad"], kept["prev_loss"] = point[1].clone(), point[0]
            begins = state["n_iter"] == 1
            kept["t"] = min(1.0, 1.0 / point[1].abs().sum()) * rate if begins else rate
            slope = float(point[1].dot(kept["d"]))
            if slope > -group["tolerance_change"]:
                break
            last, left = iterations == group["max_iter"], group["max_eval"] - evaluations
            point, used = self._advance(closure, point, slope, kept, last, left)
            evaluations += used
            state["func_evals"] += used
            if iterations == group["max_iter"] or evaluations >= group["max_eval"]:
                break
            if float(point[1].abs().max()) <= group["tolerance_grad"]:
                break
            if float((kept["d"] * kept["t"]).abs().max()) <= group["tolerance_change"]:
                break
            if abs(point[0] - kept["prev_loss"]) < group["tolerance_change"]:
                break
        state.update(kept)
        return first
