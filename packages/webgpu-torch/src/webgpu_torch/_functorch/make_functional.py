"""Modules as functions of their parameters under the names that ``functorch`` had for them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeAlias

from webgpu_torch_core import Tensor, stack
from webgpu_torch_nn import Module
from webgpu_torch_nn.func import _require_alike

from ..func import functional_call

Tensors: TypeAlias = tuple[Tensor, ...]


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters, its buffers, and its arguments.

    Args:
        stateless_model: the module.
        param_names, buffer_names: the paths of its parameters and buffers, in the order in which they are given.
    """

    def __init__(self, stateless_model: Module, param_names: Sequence[str], buffer_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: object, **kwargs: object) -> object:
        """Return what the module computes with these parameters and buffers."""
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module as a function of its parameters and its arguments.

    Args:
        stateless_model: the module.
        param_names: the paths of its parameters, in the order in which they are given.
    """

    def __init__(self, stateless_model: Module, param_names: Sequence[str]) -> None:
        super().__init__(stateless_model, param_names, ())

    def forward(self, params: Sequence[Tensor], *args: object, **kwargs: object) -> object:  # type: ignore[override]
        """Return what the module computes with these parameters."""
        return super().forward(params, (), *args, **kwargs)


def _copied(model: Module, detached: bool) -> tuple[Module, Tensors, Tensors]:
    """Return a copy of a module, its parameters and its buffers."""
    made = copy.deepcopy(model)
    params = tuple(
        each.detach().requires_grad_(each.requires_grad and not detached) for _, each in model.named_parameters()
    )
    return made, params, tuple(each.detach().clone() for _, each in model.named_buffers())


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return a module as a function of its parameters and buffers, and these.

    Args:
        model: the module.
        disable_autograd_tracking: whether the parameters record no gradients.
    """
    made, params, buffers = _copied(model, disable_autograd_tracking)
    names = [name for name, _ in model.named_parameters()], [name for name, _ in model.named_buffers()]
    return FunctionalModuleWithBuffers(made, *names), params, buffers


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
    """Return a module without buffers as a function of its parameters, and these.

    Args:
        model: the module.
        disable_autograd_tracking: whether the parameters record no gradients.

    Raises:
        RuntimeError: the module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    made, params, _ = _copied(model, disable_autograd_tracking)
    return FunctionalModule(made, [name for name, _ in model.named_parameters()]), params


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return a function of the parameters and buffers of one of several modules, and those of all, stacked.

    Raises:
        RuntimeError: no modules, some in training and some not, or modules of several classes.
    """
    _require_alike(models, "combine_state_for_ensemble")
    functions, params, buffers = zip(*map(make_functional_with_buffers, models), strict=True)
    return functions[0], _stacked(params), _stacked(buffers)


def _stacked(states: Sequence[Tensors]) -> Tensors:
    return tuple(stack(each).detach().requires_grad_(each[0].requires_grad) for each in zip(*states, strict=True))


Older: TypeAlias = tuple[Tensors, Callable[..., object], tuple[str, ...]]
OlderWithBuffers: TypeAlias = tuple[Tensors, Tensors, Callable[..., object], tuple[str, ...], tuple[str, ...]]


def _as_tuple(data: object) -> tuple[object, ...]:
    return data if isinstance(data, tuple) else (data,)


def make_functional_deprecated_v1(model: Module) -> Older:
    """Return a module's parameters, a function of them and of its arguments (one, or a tuple of them), and their paths.

    Raises:
        RuntimeError: the module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional_deprecated_v1(model): `model` has buffers. Please use make_functional_with_buffers_deprecated_v1(model) "
            "instead."
        )
    function, params = make_functional(model)
    return params, lambda weights, data: function(weights, *_as_tuple(data)), function.param_names


def make_functional_with_buffers_deprecated_v1(model: Module) -> OlderWithBuffers:
    """Return a module's parameters and buffers, a function of them and of its arguments (one, or a tuple of them), and their paths."""
    function, params, buffers = make_functional_with_buffers(model)
    call = lambda weights, others, data: function(weights, others, *_as_tuple(data))  # noqa: E731
    return params, buffers, call, function.param_names, function.buffer_names


def _models(kind: type[Module], shape: Sequence[int], device: object, args: object, kwargs: object) -> list[Module]:
    if len(shape) >= 2:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if shape and shape[0] <= 0:
        raise ValueError(f"num_models {shape[0]} should be > 0")
    return [kind(*args, **kwargs).to(device) for _ in range(shape[0] if shape else 1)]  # type: ignore[arg-type,misc]


def functional_init(
    model_class: type[Module], ensemble_shape: tuple[int, ...] = (), device: object = "cpu"
) -> Callable[..., Older]:
    """Return what makes a module of a class, given its arguments, as :func:`make_functional_deprecated_v1` returns it.

    Args:
        model_class: the class.
        ensemble_shape: how many modules; their parameters are stacked.
        device: where they are.

    Raises:
        ValueError: more than one number in the shape, or none above zero.
    """

    def make(*args: object, **kwargs: object) -> Older:
        made = [
            make_functional_deprecated_v1(each) for each in _models(model_class, ensemble_shape, device, args, kwargs)
        ]
        params, function, names = made[0]
        return (_stacked([each[0] for each in made]) if ensemble_shape else params), function, names

    return make


def functional_init_with_buffers(
    model_class: type[Module], ensemble_shape: tuple[int, ...] = (), device: object = "cpu"
) -> Callable[..., OlderWithBuffers]:
    """Return what makes a module of a class, given its arguments, as :func:`make_functional_with_buffers_deprecated_v1` returns it.

    Args:
        model_class: the class.
        ensemble_shape: how many modules; their parameters and buffers are stacked.
        device: where they are.

    Raises:
        ValueError: more than one number in the shape, or none above zero.
    """

    def make(*args: object, **kwargs: object) -> OlderWithBuffers:
        models = _models(model_class, ensemble_shape, device, args, kwargs)
        made = [make_functional_with_buffers_deprecated_v1(each) for each in models]
        params, buffers, *rest = made[0]
        if ensemble_shape:
            params, buffers = _stacked([each[0] for each in made]), _stacked([each[1] for each in made])
        return params, buffers, *rest  # type: ignore[return-value]

    return make
