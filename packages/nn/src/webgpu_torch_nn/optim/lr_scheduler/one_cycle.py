"""The one-cycle schedule."""

from __future__ import annotations

import math
from typing import Any

from webgpu_torch_nn.optim.lr_scheduler.momentum import WithMomentum
from webgpu_torch_nn.optim.lr_scheduler.scheduler import check_optimizer, per_group
from webgpu_torch_nn.optim.optimizer import Optimizer


def _phase(end: float, rates: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
    """Return a phase: the step it ends at and the options it leads from and to."""
    return {
        "end_step": end,
        "start_lr": rates[0],
        "end_lr": rates[1],
        "start_momentum": momenta[0],
        "end_momentum": momenta[1],
    }


def _phases(total_steps: int, share: float, three: bool) -> list[dict[str, Any]]:
    falling, rising = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
    first = _phase(float(share * total_steps) - 1, ("initial_lr", "max_lr"), falling)
    if not three:
        return [first, _phase(total_steps - 1, ("max_lr", "min_lr"), rising)]
    return [
        first,
        _phase(float(2 * share * total_steps) - 2, ("max_lr", "initial_lr"), rising),
        _phase(total_steps - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]


def _count_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch


class OneCycleLR(WithMomentum):
    """Up to a high rate, then down far below the first one, within a fixed number of steps (Smith and Topin, 2017).

    Args:
        optimizer: whose groups to change.
        max_lr: the highest rate, for all groups or for each.
        total_steps: the length; else ``epochs * steps_per_epoch``.
        epochs, steps_per_epoch: as above.
        pct_start: the share of the steps that the way up takes.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether the momentum moves against the rate.
        base_momentum, max_momentum: its limits, for all groups or for each.
        div_factor: the first rate is ``max_lr / div_factor``.
        final_div_factor: the last one is the first one divided by it.
        three_phase: whether the way down stops at the first rate before it goes on.
        last_epoch: number of the last step taken; -1 starts anew.

    Raises:
        ValueError: an option is out of range, no length is given, it is exceeded, or there is no momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _count_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum()
            highest = per_group("max_momentum", optimizer, max_momentum)
            self._begin_momentum(highest, per_group("base_momentum", optimizer, base_momentum), last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _annealing_cos(start: float, end: float, pct: float) -> float:
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start: float, end: float, pct: float) -> float:
        return (end - start) * pct + start

    def _between(self, start: Any, end: Any, share: float) -> Any:
        kind = getattr(self, "_anneal_func_type", None)
        if kind is None:
            # The state of older versions has the function itself.
            return self.anneal_func(start, end, share)  # type: ignore[attr-defined]
        return (self._annealing_linear if kind == "linear" else self._annealing_cos)(start, end, share)

    def _rates(self) -> list[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start, phase = 0.0, self._schedule_phases[0]
        for following in self._schedule_phases[1:]:
            if step <= phase["end_step"]:
                break
            start, phase = phase["end_step"], following
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                limits = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*limits, share))
        return rates
