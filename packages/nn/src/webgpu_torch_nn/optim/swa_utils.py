"""Averages of a model's weights over training: stochastic weight averaging and moving averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.modules.batchnorm import _BatchNorm
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.optim.lr_scheduler.scheduler import Formula, per_group
from webgpu_torch_nn.optim.optimizer import Optimizer


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _interpolates(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """Return a function that moves lists of averages in place: ``decay * average + (1 - decay) * value``.

    Raises:
        ValueError: ``decay`` is not between 0 and 1.
    """
    _check_decay(decay)

    def update(averages: Sequence[Tensor], values: Sequence[Tensor], _: Any) -> None:
        with torch.no_grad():
            for average, value in zip(averages, values, strict=True):
                if _interpolates(average):
                    average.lerp_(value, 1 - decay)
                else:
                    average.copy_(average * decay + value * (1 - decay))

    return update


def get_swa_multi_avg_fn() -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """Return a function that makes lists of averages of n values, in place, the averages of n + 1."""

    def update(averages: Sequence[Tensor], values: Sequence[Tensor], count: Any) -> None:
        with torch.no_grad():
            for average, value in zip(averages, values, strict=True):
                if _interpolates(average):
                    average.lerp_(value, _share(average, count))
                else:
                    average.copy_(average + (value - average) / (count + 1))

    return update


def _share(average: Tensor, count: Any) -> Any:
    """Return what a new value counts for in an average, in the average's type."""
    share = 1 / (count + 1)
    return share.to(average.dtype) if isinstance(share, Tensor) else share


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return a function that computes ``decay * average + (1 - decay) * value``.

    Raises:
        ValueError: ``decay`` is not between 0 and 1.
    """
    _check_decay(decay)

    def update(average: Tensor, value: Tensor, _: Any) -> Tensor:
        with torch.no_grad():
            return decay * average + (1 - decay) * value

    return update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return a function that computes the average of n + 1 values from that of n and one more."""

    def update(average: Tensor, value: Tensor, count: Any) -> Tensor:
        with torch.no_grad():
            return average + (value - average) / (count + 1)

    return update


def _by_kind(averages: Sequence[Tensor], values: Sequence[Tensor]) -> list[tuple[list[Tensor], list[Tensor]]]:
    """Return pairs of lists, each of tensors on one device and of one type."""
    groups: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for average, value in zip(averages, values, strict=True):
        mine, theirs = groups.setdefault((str(average.device), average.dtype), ([], []))
        mine.append(average)
        theirs.append(value)
    return list(groups.values())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of that model's parameters so far.

    Args:
        model: the model to copy; later values come through :meth:`update_parameters`.
        device: where the copy lives, by default where the model does.
        avg_fn: ``(average, value, count) -> average`` for one tensor; by default the mean of all (Izmailov et al., 2018).
        multi_avg_fn: ``(averages, values, count)``, in place and for lists of tensors of one type.
        use_buffers: whether buffers are averaged too; otherwise they are copied.

    Raises:
        AssertionError: both functions are given.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers
        #: the count and what its buffer was when it was read
        self._known: tuple[Any, int] = (None, 0)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's present parameters into the averages; nothing waits for the device."""
        own, new = self.module.parameters(), model.parameters()
        if self.use_buffers:
            own, new = chain(own, self.module.buffers()), chain(new, model.buffers())
        averages, values = [], []
        for average, value in zip(own, new, strict=False):
            averages.append(average.detach())
            values.append(value.detach().to(average.device))
        if self._count() == 0:
            for average, value in zip(averages, values, strict=True):
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in zip(averages, values, strict=True):
                average.copy_(self.avg_fn(average, value, self.n_averaged.to(average.device)))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for group, news in _by_kind(averages, values):
                update(group, news, self.n_averaged.to(group[0].device))
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.detach().copy_(value.detach().to(buffer.device))
        count = self._count()
        self.n_averaged += 1
        self._known = (self._mark(), count + 1)

    def _mark(self) -> Any:
        return id(self.n_averaged), self.n_averaged._version

    def _count(self) -> int:
        """Return the number of averaged models, read from the device only where somebody else has set it."""
        if self._known[0] != self._mark():
            self._known = (self._mark(), int(self.n_averaged.item()))
        return self._known[1]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch normalisations anew, from the data of a loader.

    Args:
        loader: gives batches, or tuples and lists that begin with one.
        model: whose statistics to set; it is called on every batch, in training mode.
        device: where the batches are moved before.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = [module.momentum for module in norms]
    was_training = model.training
    model.train()
    for module in norms:
        module.reset_running_stats()
        # The mean of all batches instead of a moving one.
        module.momentum = None
    with torch.no_grad():
        for batch in loader:
            input = batch[0] if isinstance(batch, list | tuple) else batch
            model(input if device is None else input.to(device))
    for module, momentum in zip(norms, momenta, strict=True):
        module.momentum = momentum
    model.train(was_training)


class SWALR(Formula):
    """From the present rates to fixed ones within some steps, for averaging weights (Izmailov et al., 2018).

    Args:
        optimizer: whose groups to change.
        swa_lr: the last rate, for all groups or for each.
        anneal_epochs: how many steps that takes.
        anneal_strategy: "cos" or "linear".
        last_epoch: number of the last step taken; -1 starts anew.

    Raises:
        ValueError: an option is unknown or negative, or there are not as many rates as groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, share: float) -> float:
        """Return how far the rate has come after a share of the steps."""
        return (1 - math.cos(math.pi * share)) / 2 if self._anneal_strategy == "cos" else share

    def _progress(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def _rates(self) -> list[Any]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._progress(step - 1), self._progress(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates


__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip
