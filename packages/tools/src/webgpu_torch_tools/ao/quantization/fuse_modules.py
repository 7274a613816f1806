"""Modules that follow each other, made one in their network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_nn import Module

from .fuser_method_mappings import get_fuser_method


def fuse_known_modules(
    mod_list: Sequence[Module],
    is_qat: bool,
    additional_fuser_method_mapping: dict[tuple[Answer, ...], Answer] | None = None,
) -> list[Module | None]:
    """Return the one module for some that follow each other, and identities in the places of the others.

    Raises:
        NotImplementedError: there is none for them.
    """
    types = tuple(type(each) for each in mod_list)
    method = get_fuser_method(types, additional_fuser_method_mapping)
    fused = method(is_qat, *mod_list)
    # What looks at the first module's argument and at the last one's result, looks at the fused module's.
    for kept, hooks in (
        (fused._forward_pre_hooks, mod_list[0]._forward_pre_hooks),
        (fused._forward_hooks, mod_list[-1]._forward_hooks),
    ):
        for key in list(hooks):
            kept[key] = hooks.pop(key)
    rest: list[Module | None] = []
    for each in mod_list[1:]:
        identity = nn.Identity()
        identity.training = each.training
        rest.append(identity)
    return [fused, *rest]


def _fused_in(
    model: Module,
    names: Sequence[str],
    is_qat: bool,
    fuser_func: Callable[..., Answer],
    custom: dict[str, Answer] | None,
) -> None:
    mapping = (custom or {}).get("additional_fuser_method_mapping")
    modules = [model.get_submodule(name) for name in names]
    for name, each in zip(names, fuser_func(modules, is_qat, mapping), strict=True):
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, each)


def _fuse(
    model: Module, modules_to_fuse: Sequence[Answer], is_qat: bool, inplace: bool, fuser_func: Callable[..., Answer],
    custom: dict[str, Answer] | None,
) -> Module:  # fmt: skip
    model = model if inplace else copy.deepcopy(model)
    lists: list[Answer] = [modules_to_fuse] if isinstance(modules_to_fuse[0], str) else list(modules_to_fuse)
    for each in lists:
        _fused_in(model, each, is_qat, fuser_func, custom)
    return model


def fuse_modules(
    model: Module, modules_to_fuse: Sequence[Answer], inplace: bool = False, fuser_func: Callable[..., Answer] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Answer] | None = None,
) -> Module:  # fmt: skip
    """Return a network in which modules that follow each other are one: convolutions, linear layers, normalisations and ReLUs.

    Args:
        model: the network, in evaluation mode.
        modules_to_fuse: a list of their names, or a list of such lists.
        inplace: change the network itself.
        fuser_func: what fuses a list of modules.
        fuse_custom_config_dict: ``additional_fuser_method_mapping``: what makes one of modules of other classes.

    Raises:
        AssertionError: there is no module for some of them, or they are in training.
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Module, modules_to_fuse: Sequence[Answer], inplace: bool = False, fuser_func: Callable[..., Answer] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Answer] | None = None,
) -> Module:  # fmt: skip
    """Return what :func:`fuse_modules` does, for training: normalisations stay, and are trained.

    Raises:
        AssertionError: there is no module for some of them.
    """
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
