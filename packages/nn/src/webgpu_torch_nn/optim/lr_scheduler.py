"""Learning-rate schedules: each ``step`` sets every group's "lr"."""

from __future__ import annotations

import math
import types
import warnings
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.optimizer import Optimizer, to_scalar


def _track_calls(optimizer: Optimizer) -> None:
    """Make the optimiser remember that it has stepped, so that a schedule can warn about the wrong order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function: Any = optimizer.step.__func__
    reference: Any = weakref.ref(optimizer)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        instance = reference()
        instance._opt_called = True
        return function(instance, *args, **kwargs)

    wrapper.__dict__["_wrapped_by_lr_sched"] = True
    optimizer.step = wrapper


class LRScheduler:
    """Base class of schedules.

    Args:
        optimizer: whose groups to change.
        last_epoch: number of the last step taken; -1 starts anew.
    """

    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer: Any = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming scheduler with "
                    f"last_epoch >= 0 (got {last_epoch}); load the optimizer's state first."
                )
        self.base_lrs = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        _track_calls(optimizer)
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates last set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rates of step ``last_epoch``, one per group; every schedule defines it."""
        raise NotImplementedError

    def _current(self) -> list[Any]:
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Advance by one step, or to step ``epoch``, and set the learning rates."""
        if self._step_count == 1:
            self._warn_about_order()
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            values = getattr(self, "_get_closed_form_lr", self.get_lr)()
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(to_scalar(value))
            else:
                group["lr"] = value
        self._last_lr = self._current()

    def _warn_about_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`.",
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                "otherwise the first value of the learning rate schedule is skipped.",
                stacklevel=3,
            )


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class LambdaLR(LRScheduler):
    """``base_lr * lr_lambda(step)``, with one function or one per group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and plain functions; callable objects are saved by their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(function, types.FunctionType) else function.__dict__.copy()
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)

    def get_lr(self) -> list[Any]:
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class StepLR(LRScheduler):
    """Multiply by ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._current()
        return [group["lr"] * self.gamma for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Change the factor linearly from ``start_factor`` to ``end_factor`` within ``total_iters`` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        groups = self.optimizer.param_groups
        if self.last_epoch == 0:
            return [group["lr"] * self.start_factor for group in groups]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        change = self.end_factor - self.start_factor
        factor = 1.0 + change / (self.total_iters * self.start_factor + (self.last_epoch - 1) * change)
        return [group["lr"] * factor for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * share) for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base rate down to ``eta_min`` in ``T_max`` steps (Loshchilov and Hutter, 2016)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [g["lr"] + (base - self.eta_min) * rise for g, base in zip(groups, self.base_lrs, strict=True)]
        # Relative to the present rate, so that a rate changed by hand or by another schedule keeps its effect.
        now, before = (1 + math.cos(math.pi * step / self.T_max) for step in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]
