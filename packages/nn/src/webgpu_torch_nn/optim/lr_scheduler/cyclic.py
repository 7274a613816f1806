"""The cyclical schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from webgpu_torch_nn.optim.lr_scheduler.momentum import WithMomentum
from webgpu_torch_nn.optim.lr_scheduler.scheduler import (
    check_optimizer,
    load_functions,
    per_group,
    saved_functions,
    set_value,
)
from webgpu_torch_nn.optim.optimizer import Optimizer

#: relative heights of cycles, by mode
_HEIGHTS: dict[str, Callable[[float, float], float]] = {
    "triangular": lambda gamma, x: 1.0,
    "triangular2": lambda gamma, x: 1 / 2.0 ** (x - 1),
    "exp_range": lambda gamma, x: gamma**x,
}


class CyclicLR(WithMomentum):
    """Up and down between two rates, again and again (Smith, 2015), the momentum in the opposite direction.

    Args:
        optimizer: whose groups to change.
        base_lr, max_lr: the lowest and the highest rate, for all groups or for each.
        step_size_up, step_size_down: how many steps the way up and the way down take; both as long by default.
        mode: "triangular": cycles of one height; "triangular2": each half as high; "exp_range": ``gamma ** step`` as high.
        gamma: of "exp_range".
        scale_fn: a function of the cycle or step for the height, instead of ``mode``.
        scale_mode: whether that is given the number of the "cycle" or of "iterations".
        cycle_momentum: whether the momentum moves too.
        base_momentum, max_momentum: its limits, for all groups or for each.
        last_epoch: number of the last step taken; -1 starts anew.

    Raises:
        ValueError: an option is unknown, a list has another length than there are groups, or there is no momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, value in zip(optimizer.param_groups, base_lrs, strict=True):
                set_value(group, "lr", value)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in _HEIGHTS and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum()
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            self._begin_momentum(self.max_momentums, self.base_momentums, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    @property
    def _scale_fn_ref(self) -> Callable[[float, float], float]:
        """The mode's height of a cycle, given gamma and the cycle or step; a function that holds no schedule."""
        return _HEIGHTS[self.mode]

    def scale_fn(self, x: float) -> float:
        """Return the relative height of a cycle."""
        return self._scale_fn_ref(self.gamma, x) if self._scale_fn_custom is None else self._scale_fn_custom(x)

    def _rates(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        position = 1.0 + self.last_epoch / self.total_size - cycle
        height = position / self.step_ratio if position <= self.step_ratio else (position - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            limits = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in limits:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and a plain ``scale_fn``; a callable object is saved by its attributes."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if function is None else saved_functions([function])[0]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        load_functions([self._scale_fn_custom], [state_dict["_scale_fn_custom"]])
