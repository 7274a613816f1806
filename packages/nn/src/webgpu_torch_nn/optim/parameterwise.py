"""What optimisers share whose step treats every parameter on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.apart import computed_apart
from webgpu_torch_core.record.changes import changed
from webgpu_torch_core.record.context import context
from webgpu_torch_core.replay.numbers import numbers

from webgpu_torch_nn.optim.optimizer import Optimizer, arguments, rate_tensor, real_view
from webgpu_torch_nn.optim.states import SCALARS, Kept, Named, ParameterState, to_scalar

#: the parameters that an optimiser is given, or a gradient of any layout
Given: TypeAlias = Any


class ParameterwiseOptimizer(Optimizer):
    """An optimiser that is a rule for one parameter: subclasses write :meth:`_begin` and :meth:`_update`.

    The updates of all parameters are recorded without reading anything, and run as one plan.
    """

    #: whether the rule is also one for gradients that name only some rows
    takes_sparse = False

    def __init__(self, params: Given, defaults: Named) -> None:
        self._watched: list[ParameterState] = []
        super().__init__(params, defaults)

    def __setstate__(self, state: Named) -> None:
        self._watched = []
        super().__setstate__(state)
        for parameter, value in self.state.items():
            self.state[parameter] = self._seen(value)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; returns what ``closure`` returned.

        Raises:
            RuntimeError: a gradient is sparse, and there is no such rule.
        """
        loss = self._evaluate(closure)
        for state in self._watched:
            state.take_writes()
        # Autograd goes through the step itself where that is asked for.
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    if parameter.grad.is_sparse and not self.takes_sparse:
                        self._refuse_sparse()
                    if group.get("differentiable"):
                        self._renew(parameter)
                    self._update(parameter, numbers(group))
        if self._watched and context.capture is None:
            self._watched[:] = [state for state in self._watched if state.renew()]
        return loss

    def _seen(self, state: Kept) -> Kept:
        """Return a parameter's state as others see it."""
        return ParameterState(state, self._watched) if state.__class__ is dict else state

    @staticmethod
    def _packed(value: Kept) -> Kept:
        return dict(value) if isinstance(value, ParameterState) else value

    def _describe_for_recording(self, description: Given) -> object:
        for state in self._watched:
            state.take_writes()
        return super()._describe_for_recording(description)

    def _cast(self, parameter: Tensor, value: Kept, key: object = None) -> Kept:
        return float(to_scalar(value)) if key in SCALARS else super()._cast(parameter, value, key)

    def _renew(self, parameter: Tensor) -> None:
        """Put copies in place of a parameter's state: what autograd saved in the step before stays as it was."""
        state = self.state.get(parameter, {})
        state = state.kept if isinstance(state, ParameterState) else state
        state.update({name: value.clone() for name, value in state.items() if isinstance(value, Tensor)})

    def _refuse_sparse(self) -> NoReturn:
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _update(self, parameter: Tensor, group: Named) -> None:
        """Change one parameter by its gradient."""
        raise NotImplementedError

    def _begin(self, parameter: Tensor, group: Named) -> Named:
        """Return the state that a parameter starts with, which depends on shapes and types only."""
        raise NotImplementedError

    def _state_of(self, parameter: Tensor, group: Named) -> Named:
        """Return a parameter's state, made at its first step."""
        state: Any = self.state[parameter]
        if state.__class__ is not ParameterState:
            state = self.state[parameter] = self._seen(state)
        kept = state.kept
        if not kept:
            with computed_apart(parameter.device):
                kept.update(self._begin(parameter, group))
            changed()
        return numbers(kept)


def options(scope: dict[str, object], order: str = "") -> dict[str, Any]:
    """Return an optimiser's default options, its arguments, checked as far as they are common.

    Args:
        scope: the ``locals()`` of its ``__init__``, where nothing else has a name yet.
        order: the names in the order in which PyTorch's groups of parameters have them, where arguments come in another.

    Raises:
        ValueError: the learning rate, eps, a beta or another option is out of range.
    """
    given: Named = arguments(scope)
    lr = given["lr"]
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    for name, called in (("eps", "epsilon value"), ("momentum", "momentum value")):
        if name in given and not given[name] >= 0.0:
            raise ValueError(f"Invalid {called}: {given[name]}")
    for index, beta in enumerate(given.get("betas", ())):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
    if not given.get("weight_decay", 0) >= 0.0:
        raise ValueError(f"Invalid weight_decay value: {given['weight_decay']}")
    return {name: given[name] for name in order.split()} if order else given


def count(state: dict[str, float]) -> None:
    """Count a step."""
    state["step"] = state["step"] + 1


def gradient(parameter: Tensor, group: dict[str, Any]) -> tuple[Any, Any]:
    """Return the parameter and the gradient to descend along, as real numbers: negated to climb, and with the weight
    decay's part unless that is decoupled, in which case the parameter shrinks here."""
    values, grad = real_view(parameter), real_view(parameter.grad)
    return values, descent(values, grad, *decay(values, group))


def decay(values: Tensor, group: dict[str, Any]) -> tuple[bool, float | Tensor | None, float | Tensor | None]:
    """Return whether to climb, how much of the parameter is added to the gradient, and which scalar it shrinks by: None
    for nothing."""
    given = group.get("weight_decay", 0)
    if not isinstance(given, Tensor) and given == 0:
        return group["maximize"], None, None
    if group.get("decoupled_weight_decay"):
        return group["maximize"], None, shrinkage(values, group)
    return group["maximize"], given if group.get("differentiable") else to_scalar(given), None


def descent(
    values: Tensor, grad: Tensor, climbs: bool, decayed: float | Tensor | None, shrinks: float | Tensor | None
) -> Tensor:
    """Return the gradient to descend along, of the parameter's shape, given what :func:`decay` says; the parameter shrinks here."""
    grad = -grad if climbs else grad
    if shrinks is not None:
        values.mul_(shrinks)
    if decayed is None:
        return grad
    # What a factor's gradient needs is written into afterwards.
    return grad + (values.clone() if isinstance(decayed, Tensor) else values) * decayed


def shrinkage(parameter: Tensor, group: dict[str, Any]) -> Any:
    """Return the factor of decoupled weight decay: a tensor where the learning rate is one."""
    rate = rate_tensor(parameter, group)
    if rate is not None:
        return 1 - rate * group["weight_decay"]
    return 1 - to_scalar(group["lr"]) * group["weight_decay"]


def rate(group: dict[str, Any]) -> Any:
    """Return a group's learning rate as a number; as it is where autograd goes through the step."""
    return group["lr"] if group.get("differentiable") else to_scalar(group["lr"])
