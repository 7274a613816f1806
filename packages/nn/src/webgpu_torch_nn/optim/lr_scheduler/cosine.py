"""Schedules along a cosine (Loshchilov and Hutter, "SGDR", 2016)."""

from __future__ import annotations

import math
from typing import Any

from webgpu_torch_nn.optim.lr_scheduler.scheduler import Formula
from webgpu_torch_nn.optim.optimizer import Optimizer


class CosineAnnealingLR(Formula):
    """Half a cosine from the base rate down to ``eta_min`` in ``T_max`` steps."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Any]:
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The rate before was eta_min, which no factor leads away from.
            rise = 1 - math.cos(math.pi / self.T_max)
            return [g["lr"] + (base - self.eta_min) * rise / 2 for g, base in zip(groups, self.base_lrs, strict=True)]
        # Relative to the present rate, so that a rate changed by hand or by another schedule keeps its effect.
        now, before = (1 + math.cos(math.pi * step / self.T_max) for step in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(Formula):
    """Half a cosine down to ``eta_min`` over ``T_0`` steps, then again from the top over ``T_mult`` times as many.

    Raises:
        ValueError: ``T_0`` or ``T_mult`` is no positive integer, or ``eta_min`` no number.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Any]:
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one step, or to ``epoch``, which may lie between two steps.

        Raises:
            ValueError: ``epoch`` is negative.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._find_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        self._set_rates()

    def _find_cycle(self, epoch: float) -> None:
        """Set how long the cycle is that a step belongs to, and how far into it the step is."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # The first n cycles last T_0 (T_mult^n - 1) / (T_mult - 1) steps together.
            count = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**count - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**count
