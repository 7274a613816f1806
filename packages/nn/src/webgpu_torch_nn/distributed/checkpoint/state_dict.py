"""States of models and optimisers by the names that parameters have without wrappers, as ``torch.distributed.checkpoint.state_dict``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from ...modules._state import _IncompatibleKeys as IncompatibleKeys
from ...modules.module import Module
from ...optim.optimizer import Optimizer
from ..collectives import broadcast
from ..groups import get_rank, get_world_size, is_initialized
from ..names import parameter_names, plain_name

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

State: TypeAlias = dict[str, Any]
Optimizers: TypeAlias = Optimizer | Iterable[Optimizer]


@dataclass
class StateDictOptions:
    """What states hold and how they are loaded.

    Attributes:
        full_state_dict: whole tensors, which they are here always.
        cpu_offload: tensors on the CPU; with whole ones, on the first process only.
        ignore_frozen_params: leave parameters out that need no gradient.
        keep_submodule_prefixes: of submodules, names from the model on.
        strict: names that are missing, or that the model has not, are refused.
        broadcast_from_rank0: the first process's values are loaded everywhere.
        flatten_optimizer_state_dict: one dictionary of ``state.NAME.KEY`` and ``param_groups.NAME.KEY``.
        dsd_fqn_modifiers: taken and ignored.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def __post_init__(self) -> None:
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")


def _several() -> bool:
    return is_initialized() and get_world_size() > 1


def _as_asked(state: State, options: StateDictOptions) -> State:
    """Return a state as it was asked for: its tensors on the CPU; nothing on processes that have no use for it."""
    if not options.cpu_offload:
        return state
    if options.full_state_dict and _several() and get_rank():
        return {}
    return {key: _on_host(value) for key, value in state.items()}


def _on_host(value: object) -> object:
    if isinstance(value, dict):
        return {key: _on_host(each) for key, each in value.items()}
    return value.to("cpu") if isinstance(value, Tensor) else value


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> State:
    """Return a model's parameters and buffers by the names that they have without wrappers; of some submodules only, if asked."""
    options = options or StateDictOptions()
    state = {plain_name(model, name): value for name, value in model.state_dict().items()}
    if options.ignore_frozen_params:
        frozen = {plain_name(model, name) for name, each in model.named_parameters() if not each.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    if submodules:
        prefixes = [f"{plain_name(model, name)}." for name, each in model.named_modules() if each in submodules]
        state = {
            name if options.keep_submodule_prefixes else name.removeprefix(prefix): value
            for prefix in prefixes
            for name, value in state.items()
            if name.startswith(prefix)
        }
    return _as_asked(state, options)


def set_model_state_dict(
    model: Module, model_state_dict: State, *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Load what :func:`get_model_state_dict` gave; return which names were missing or too many.

    Raises:
        RuntimeError: sizes differ, or names, unless ``strict`` is False.
    """
    options = options or StateDictOptions()
    own = {plain_name(model, name): name for name in model.state_dict()}
    given = {own.get(name, name): value for name, value in model_state_dict.items()}
    copied = options.broadcast_from_rank0 and _several()
    if copied and get_rank():
        found = IncompatibleKeys([], [])
    else:
        found = model.load_state_dict(given, strict=options.strict)
    if copied:
        for value in model.state_dict().values():
            broadcast(value, 0)
    return found


def _listed(optimizers: Optimizers) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _begin(optimizer: Optimizer) -> None:
    """Have an optimiser make the state that its first step makes, by a step that changes no parameter."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    if optimizer.state or any(each.grad is not None for each in parameters):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
    optimizer.step(closure=None)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> State:  # fmt: skip
    """Return the state of a model's optimisers with parameters by name; one that made no step yet has zeros.

    Raises:
        NotImplementedError: of some submodules only.
    """
    if submodules:
        raise NotImplementedError("the state of an optimiser is that of all its parameters: leave submodules out")
    options = options or StateDictOptions()
    merged: State = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        _begin(optimizer)
        state, names = optimizer.state_dict(), parameter_names(model, optimizer)
        merged["state"] |= {names[number]: each for number, each in state["state"].items()}
        merged["param_groups"] += [
            {**each, "params": [names[number] for number in each["params"]]} for each in state["param_groups"]
        ]
    if options.flatten_optimizer_state_dict:
        merged = _flattened(merged)
    return _as_asked(merged, options)


def _flattened(state: State) -> State:
    flat = {f"state.{name}.{key}": value for name, entries in state["state"].items() for key, value in entries.items()}
    for group in state["param_groups"]:
        for name in group["params"]:
            flat |= {f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"}
    return flat


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizers, optim_state_dict: State, *, options: StateDictOptions | None = None
) -> None:
    """Load what :func:`get_optimizer_state_dict` gave, flattened or not, into optimisers that may group parameters otherwise.

    Raises:
        RuntimeError: the state lacks a parameter's group.
    """
    options = options or StateDictOptions()
    given = optim_state_dict
    for optimizer in _listed(optimizers):
        _begin(optimizer)
        state, names = optimizer.state_dict(), parameter_names(model, optimizer)
        flat = given if "param_groups" not in given else _flattened(given)
        for number, entries in state["state"].items():
            for key in entries:
                entries[key] = flat.get(f"state.{names[number]}.{key}", entries[key])
        for group in state["param_groups"]:
            for key in set(group) - {"params"}:
                name = names[group["params"][0]]
                if f"param_groups.{name}.{key}" not in flat:
                    raise RuntimeError(f"the state has no {key} of the group of {name}")
                group[key] = flat[f"param_groups.{name}.{key}"]
        optimizer.load_state_dict(state)
        if options.broadcast_from_rank0 and _several():
            for entries in optimizer.state.values():
                for value in entries.values():
                    if isinstance(value, Tensor):
                        broadcast(value, 0)


def get_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> tuple[State, State]:  # fmt: skip
    """Return :func:`get_model_state_dict` and :func:`get_optimizer_state_dict`."""
    state = get_model_state_dict(model, submodules=submodules, options=options)
    return state, get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)


def set_state_dict(
    model: Module, optimizers: Optimizers, *, model_state_dict: State, optim_state_dict: State,
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:  # fmt: skip
    """Load both, as :func:`set_model_state_dict` and :func:`set_optimizer_state_dict`."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
