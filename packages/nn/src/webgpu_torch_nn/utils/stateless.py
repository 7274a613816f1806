"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

if TYPE_CHECKING:
    from webgpu_torch_nn.modules.module import Module


def _owner(module: Module, path: str) -> tuple[Any, str]:
    """Return the module that holds what a dotted path names, and its name there."""
    from webgpu_torch_nn.modules.module import Module

    *modules, name = path.split(".")
    owner: Any = module
    for each in modules:
        found = getattr(owner, each, None)
        if not isinstance(found, Module):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{each}`")
        owner = found
    return owner, name


def _swap(module: Module, path: str, tensor: Any, missing: Any) -> Any:
    """Put a tensor in the place of a parameter, buffer or attribute; return what was there."""
    owner, name = _owner(module, path)
    if tensor is not None and tensor is not missing and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    for place in (owner._parameters, owner._buffers):
        if name in place:
            before, place[name] = place[name], tensor
            return before
    before = getattr(owner, name, missing)
    if before is not missing and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not missing:
        setattr(owner, name, tensor)
    elif before is not missing:
        delattr(owner, name)
    return before


def _tied_names(module: Module) -> dict[str, list[str]]:
    """Return, for each tensor with several names, all of them by each."""
    names: dict[int, list[str]] = {}
    for pairs in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in pairs:
            names.setdefault(id(tensor), []).append(name)
    return {name: group for group in names.values() if len(group) > 1 for name in group}


def _spread(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """Return values under every name of a tied tensor."""
    tied = _tied_names(module)
    result = dict(given)
    for name in given:
        group = tied.get(name, ())
        if len({id(given[each]) for each in group if each in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(group)}, which are tied. "
                "Consider using tie_weights=False"
            )
        result.update(dict.fromkeys(group, given[name]))
    return result


def _check_names(module: Module, given: dict[str, Any]) -> None:
    known = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    known |= {name for name, _ in module.named_buffers(remove_duplicate=False)}
    messages = []
    for title, names in (("Unexpected", given.keys() - known), ("Missing", known - given.keys())):
        if names:
            messages.append(f"{title} key(s): {', '.join(map(repr, sorted(names)))}.")
    if messages:
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(messages))


@contextlib.contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Any], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Let a module have other parameters and buffers inside of the block."""
    given = _spread(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        _check_names(module, given)
    missing = object()
    before: dict[str, Any] = {}
    try:
        for name, tensor in given.items():
            before[name] = _swap(module, name, tensor, missing)
        yield
    finally:
        for name, tensor in before.items():
            left = _swap(module, name, tensor, missing)
            if name in parameters_and_buffers:
                # What the module put there is the caller's.
                parameters_and_buffers[name] = left


def _call_with(
    module: Module, given: dict[str, Any], args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other parameters and buffers; see :func:`functional_call`.

    Raises:
        RuntimeError: with ``strict``, names are missing or unknown.
        ValueError: tied names have different values.
    """
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, given, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def functional_call(
    module: Module, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other parameters and buffers, which in-place changes go to as well.

    Args:
        module: what to call.
        parameters_and_buffers: tensors by the names of those whose place they take.
        args: one argument, or a tuple of them.
        kwargs: arguments by name.
        tie_weights: whether a value for one name of a tensor with several counts for all.
        strict: whether exactly the module's names must be given.

    Raises:
        RuntimeError: with ``strict``, names are missing or unknown.
        ValueError: tied names have different values.
    """
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
    )
    return _call_with(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
