"""Schedules that a function of the step describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webgpu_torch_nn.optim.lr_scheduler.scheduler import Formula, load_functions, saved_functions
from webgpu_torch_nn.optim.optimizer import Optimizer

Functions = Callable[[int], float] | list[Callable[[int], float]]


class _ByFunctions(Formula):
    def __init__(self, optimizer: Optimizer, lr_lambda: Functions, last_epoch: int = -1) -> None:
        groups = len(optimizer.param_groups)
        if not isinstance(lr_lambda, list | tuple):
            self.lr_lambdas: list[Any] = [lr_lambda] * groups
        elif len(lr_lambda) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        """Raise where the functions cannot be called."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and plain functions; callable objects are saved by their attributes."""
        state = super().state_dict()
        # PyTorch's states end with those of the functions.
        del state["lr_lambdas"]
        return {**state, "lr_lambdas": saved_functions(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        load_functions(self.lr_lambdas, state_dict["lr_lambdas"])


class LambdaLR(_ByFunctions):
    """``base_lr * lr_lambda(step)``.

    Args:
        optimizer: whose groups to change.
        lr_lambda: one function of the step, or one per group.
        last_epoch: number of the last step taken; -1 starts anew.

    Raises:
        ValueError: there are not as many functions as groups.
    """

    def _rates(self) -> list[Any]:
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunctions):
    """``lr * lr_lambda(step)`` at every step.

    Args:
        optimizer: whose groups to change.
        lr_lambda: one function of the step, or one per group.
        last_epoch: number of the last step taken; -1 starts anew.

    Raises:
        ValueError: there are not as many functions as groups.
        TypeError: one cannot be called.
    """

    def _check_functions(self) -> None:
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")

    def _rates(self) -> list[Any]:
        if self._is_initial:
            return self._current()
        groups = self.optimizer.param_groups
        return [
            group["lr"] * function(self.last_epoch) for function, group in zip(self.lr_lambdas, groups, strict=True)
        ]
