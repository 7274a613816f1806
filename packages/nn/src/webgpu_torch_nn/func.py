"""What of ``torch.func`` is about modules: calls with other parameters, ensembles, statistics switched off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.modules.batchnorm import _BatchNorm
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.utils.stateless import _call_with


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other parameters and buffers, which in-place changes go to as well.

    Args:
        module: what to call.
        parameter_and_buffer_dicts: tensors by the names of those whose place they take; one dictionary or several.
        args: one argument, or a tuple of them.
        kwargs: arguments by name.
        tie_weights: whether a value for one name of a tensor with several counts for all.
        strict: whether exactly the module's names must be given.

    Raises:
        RuntimeError: with ``strict``, names are missing or unknown.
        ValueError: a name is in several dictionaries, tied names have different values, or no dictionaries are given.
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = _merged(given)
    elif not isinstance(given, dict):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    return _call_with(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def _merged(given: Sequence[Any]) -> dict[str, Any]:
    if not all(isinstance(each, dict) for each in given):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for each in given for name in each]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: tensor for each in given for name, tensor in each.items()}


def _stacked(tensors: list[Tensor], name: str) -> Tensor:
    if len({each.requires_grad for each in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    result = torch.stack(tensors)
    return result.detach().requires_grad_() if tensors[0].requires_grad else result


def _require_alike(models: Sequence[Module], function: str) -> None:
    """Raise in a function's name where there are no models, or they differ in class or mode.

    Raises:
        RuntimeError: that is so.
    """
    if not models:
        raise RuntimeError(f"{function}: Expected at least one model, got 0.")
    if len({each.training for each in models}) > 1:
        raise RuntimeError(f"{function}: Expected all models to have the same training/eval mode.")
    if len({type(each) for each in models}) > 1:
        raise RuntimeError(f"{function}: Expected all models to be of the same class.")


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of models of one class, each stacked along a new first dimension.

    Raises:
        RuntimeError: there are no models, or they differ in class, mode or which tensors require gradients.
    """
    models = list(models)
    _require_alike(models, "stack_module_state")
    found: list[dict[str, Tensor]] = []
    for kind in ("named_parameters", "named_buffers"):
        states = [dict(getattr(each, kind)()) for each in models]
        found.append({name: _stacked([each[name] for each in states], name) for name in states[0]})
    return found[0], found[1]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch normalisation inside of a module, itself included, keep no statistics of its batches."""
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root


__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]
