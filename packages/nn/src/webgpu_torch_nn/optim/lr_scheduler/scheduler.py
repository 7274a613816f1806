"""What all schedules share: counting steps, setting the groups' rates, saving."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import wraps
from types import FunctionType
from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn.optim.optimizer import Optimizer

EPOCH_IS_DEPRECATED = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed form is "
    "used instead of the new chainable form, where available. Please open an issue if you are unable to replicate your use "
    "case: https://github.com/pytorch/pytorch/issues/new/choose."
)


def copied(value: Any) -> Any:
    """Return a number, or a copy of a tensor that is about to change."""
    return value.clone() if isinstance(value, Tensor) else value


def group_values(optimizer: Any, key: str) -> list[Any]:
    """Return an option of every group, tensors copied."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor keeps its identity, and its new value is not waited for."""
    held = group[key]
    if not isinstance(held, Tensor):
        group[key] = value
    elif isinstance(value, Tensor):
        held.copy_(value)
    else:
        held.fill_(value)


def per_group(name: str, optimizer: Any, value: Any) -> list[Any]:
    """Return one value per group, given one for all or a list.

    Raises:
        ValueError: a list has another length than there are groups.
    """
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [copied(value) for _ in range(groups)]
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {groups}."
        )
    return [copied(each) for each in value]


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError for anything but an optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


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
    """Base class of schedules; subclasses define :meth:`get_lr`.

    Args:
        optimizer: whose groups to change.
        last_epoch: number of the last step taken; -1 starts anew.

    Raises:
        TypeError: ``optimizer`` is none.
        KeyError: a schedule that resumes finds a group without an initial rate.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer: Any = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming scheduler with "
                    f"last_epoch >= 0 (got {last_epoch}); load the optimizer's state first."
                )
        self.base_lrs: list[Any] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_calls(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Take the step that sets the first rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned, also that of PyTorch."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates last set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rates of step ``last_epoch``, one per group; every schedule defines it."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Advance by one step, or to step ``epoch``, and set the learning rates."""
        if self._step_count == 1:
            self._warn_about_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_IS_DEPRECATED, UserWarning)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._set_rates(closed_form)

    def _set_rates(self, compute: Any = None) -> None:
        """Set every group's rate to what ``compute``, by default :meth:`get_lr`, returns."""
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr() if compute is None else compute()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", value)
        self._last_lr: list[Any] = self._current()

    def _current(self) -> list[Any]:
        """Return the rates of the groups as they are now."""
        return group_values(self.optimizer, "lr")

    def _warn_about_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
                "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
                "PyTorch skipping the first value of the learning rate schedule. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
            )

    def _warn_outside_step(self) -> None:
        """Warn a caller of :meth:`get_lr` who should ask for the rates in use."""
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
            )


class Formula(LRScheduler):
    """A schedule given by :meth:`_rates`; whoever calls :meth:`get_lr` by himself is warned."""

    def get_lr(self) -> list[Any]:
        """Return the learning rates of step ``last_epoch``, one per group."""
        self._warn_outside_step()
        return self._rates()

    def _rates(self) -> list[Any]:
        raise NotImplementedError

    def _scaled(self, factor: float) -> list[Any]:
        """Return the present rates times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The base class's old name."""


def saved_functions(functions: Iterable[Any]) -> list[Any]:
    """Return what is saved of functions: of callable objects their attributes, of plain functions nothing."""
    return [None if isinstance(each, FunctionType) else each.__dict__.copy() for each in functions]


def load_functions(functions: Iterable[Any], saved: Iterable[Any]) -> None:
    """Give callable objects the attributes that were saved."""
    for function, attributes in zip(functions, saved, strict=True):
        if attributes is not None:
            function.__dict__.update(attributes)
