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
from webgpu_torch_core.replay.updates import Call, Rule, apply_all

from webgpu_torch_nn.optim.optimizer import Optimizer, arguments
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
            updates = [
                self._update_of(parameter, group) for group in self.param_groups for parameter in group["params"]
            ]
            apply_all([each for each in updates if each is not None])
        if self._watched and context.capture is None:
            self._watched[:] = [state for state in self._watched if state.renew()]
        return loss

    def _update_of(self, parameter: Tensor, group: Named) -> Call | None:
        """Return what changes a parameter of a group, if it has a gradient and that is still to be done."""
        grad = parameter.grad
        if grad is None:
            return None
        if grad.is_sparse and not self.takes_sparse:
            self._refuse_sparse()
        if group.get("differentiable"):
            self._renew(parameter)
        return self._update(parameter, numbers(group))

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

    def _update(self, parameter: Tensor, group: Named) -> Call | None:
        """Return what changes one parameter by its gradient; None where that is done."""
        raise NotImplementedError

    def _begin(self, parameter: Tensor, group: Named) -> Named:
        """Return the state that a parameter starts with, which depends on shapes and types only."""
        raise NotImplementedError

    def _counted(self, parameter: Tensor, group: Named) -> Named:
        """Return a parameter's state, made at its first step, with this step counted."""
        state: Any = self.state[parameter]
        if state.__class__ is not ParameterState:
            state = self.state[parameter] = self._seen(state)
        kept = state.kept
        if not kept:
            with computed_apart(parameter.device):
                kept.update(self._begin(parameter, group))
            changed()
        state = numbers(kept)
        if "step" in kept:
            state["step"] = state["step"] + 1
        return state


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


def descending(rule: Callable[..., None]) -> Callable[..., Call]:
    """Decorate the arithmetic of a step: ``rule(values, grad, *more)`` changes a parameter and what is kept of it.

    The result, which returns the call that does so, is called with the parameter and its group in place of its values and the gradient to descend along: negated to
    climb, and with the weight decay's part unless that is decoupled, in which case the parameter shrinks first. What follows
    are tensors, numbers, booleans and None as a :class:`Rule` takes them. Complex tensors come to the rule as their parts:
    squares are taken of each.
    """

    @Rule
    def whole(
        values: Tensor, grad: Tensor, climbs: bool, decayed: float | Tensor | None, shrinks: float | Tensor | None, *more: Given
    ) -> None:  # fmt: skip
        grad = -grad if climbs else grad
        if shrinks is not None:
            values.mul_(shrinks)
        if decayed is not None:
            # What a factor's gradient needs is written into afterwards.
            grad = grad + (values.clone() if isinstance(decayed, Tensor) else values) * decayed
        rule(values, grad, *more)

    def step(parameter: Tensor, group: Named, *more: Given) -> Call:
        given = parameter, parameter.grad, group["maximize"], *_decay(parameter, group), *more
        return whole, tuple(map(_real, given)) if parameter.is_complex() else given

    return step


def _real(given: Given) -> Given:
    """Return a complex tensor's parts as floats sharing its memory; anything else as it is."""
    return torch.view_as_real(given) if isinstance(given, Tensor) and given.is_complex() else given


def _decay(parameter: Tensor, group: Named) -> tuple[Given, Given]:
    """Return how much of the parameter is added to the gradient, and which scalar it shrinks by: None for nothing."""
    given = group.get("weight_decay", 0)
    if not isinstance(given, Tensor) and given == 0:
        return None, None
    if group.get("decoupled_weight_decay"):
        return None, shrinkage(parameter, group)
    return given if group.get("differentiable") else to_scalar(given), None


def shrinkage(parameter: Tensor, group: Named) -> Given:
    """Return the factor of decoupled weight decay: a tensor where the learning rate is one."""
    return 1 - rate(parameter, group) * group["weight_decay"]


def rate(parameter: Tensor, group: Named) -> Given:
    """Return a group's learning rate: a tensor where kernels can read it beside the parameter or autograd goes through the
    step, else a number."""
    given = group["lr"]
    if isinstance(given, Tensor) and (given.device == parameter.device or group.get("differentiable")):
        return given.reshape(()) if given.ndim else given
    return to_scalar(given)
