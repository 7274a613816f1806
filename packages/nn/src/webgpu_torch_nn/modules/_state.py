"""Saving and loading a Module's state by name, with PyTorch's keys, metadata and messages."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn
from webgpu_torch_core.tensors.swapping import swap_tensors

from webgpu_torch_nn.modules._attributes import ModuleAttributes
from webgpu_torch_nn.modules._future import get_swap_module_params_on_conversion
from webgpu_torch_nn.modules._hooks import BoundHook
from webgpu_torch_nn.parameter import Parameter, is_lazy
from webgpu_torch_nn.utils.hooks import RemovableHandle

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


#: of every module by its name: a version, and what it adds
Metadata = Mapping[str, Mapping[str, object]] | None


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What ``load_state_dict`` returns."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _swap_in(current: Tensor, value: Tensor, assign: bool) -> None:
    """Let a parameter or buffer become what it says that a loaded tensor makes of it."""
    loaded = current.module_load(value, assign=assign)
    if loaded is value or loaded is current:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in module_load"
        )
    if isinstance(current, Parameter):
        if isinstance(loaded, Parameter):
            loaded.requires_grad_(current.requires_grad)
        else:
            loaded = Parameter(loaded, requires_grad=current.requires_grad)
    swap_tensors(current, loaded)


def _load(
    module: StateMixin, local_state: Mapping[str, object], prefix: str, metadata: Metadata, assign: bool, incompatible: _IncompatibleKeys,
    error_msgs: list[str],
) -> None:  # fmt: skip
    """Load the values whose names begin with a prefix into a module and its children."""
    local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(
        local_state, prefix, local_metadata, True, incompatible.missing_keys, incompatible.unexpected_keys, error_msgs
    )
    for name, child in module._modules.items():
        if child is not None:
            child_prefix = f"{prefix}{name}."
            child_state = {key: value for key, value in local_state.items() if key.startswith(child_prefix)}
            _load(child, child_state, child_prefix, metadata, assign, incompatible, error_msgs)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, incompatible) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                "values, if incompatible_keys need to be modified, it should be done inplace."
            )


class StateMixin(ModuleAttributes):
    """The state half of :class:`~webgpu_torch_nn.Module`."""

    def get_extra_state(self) -> Any:
        """Return extra state to store in ``state_dict``; override together with :meth:`set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} has set_extra_state() but no get_extra_state(); define both.")

    def set_extra_state(self, state: Any) -> None:
        """Take back what :meth:`get_extra_state` returned."""
        raise RuntimeError(f"{type(self).__name__} has get_extra_state() but no set_extra_state(); define both.")

    def _overrides(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(StateMixin, name)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the module's state is collected."""
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` afterwards; it changes the dictionary in place."""
        hook._from_public_api = True
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`` first."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        self._load_state_dict_pre_hooks[handle.id] = BoundHook(hook, self if with_module else None)
        return handle

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it changes the keys in place."""
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._overrides("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return an ordered dictionary of every parameter and persistent buffer, by qualified name.

        Args:
            destination: a dictionary to extend instead of a new one.
            prefix: put before every name.
            keep_vars: keep the autograd history of the tensors (they are detached otherwise, sharing storage).
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            given: Any = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, metadata)
            if replaced is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = replaced
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        local_state: dict[str, Any] = {name: value for name, value in self._parameters.items() if value is not None}
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                local_state[name] = value
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, current in local_state.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, key, current, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._overrides("set_extra_state"):
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or key == extra_key:
                    continue
                head, _, tail = key[len(prefix) :].partition(".")
                if head not in (self._modules if tail or key.endswith(".") else local_state):
                    unexpected_keys.append(key)

    def _load_one(self, name: str, key: str, current: Tensor, value: Any, assign: bool, error_msgs: list[str]) -> None:
        if not (isinstance(value, Tensor) or hasattr(value, "__torch_function__")):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
            return
        if is_lazy(current):
            # What is loaded into it has no size either: it was made ready for one that has.
            return
        if len(current.shape) == 0 and tuple(value.shape) == (1,):
            # Checkpoints older than PyTorch 0.4 hold scalars as one-element vectors.
            value = value[0]
        if value.shape != current.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {current.shape}."
            )
            return
        if current.is_meta and not value.is_meta and not assign:
            warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
            )
        try:
            with torch.no_grad():
                if get_swap_module_params_on_conversion():
                    _swap_in(current, value, assign)
                    return
                if not assign:
                    current.copy_(value)
                    return
                if isinstance(current, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(current.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=current.requires_grad)
                setattr(self, name, value)
        except Exception as error:
            action = "swapping" if get_swap_module_params_on_conversion() else "copying"
            error_msgs.append(
                f'While {action} the parameter named "{key}", whose dimensions in the model are {current.size()} and '
                f"whose dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
            )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy the tensors of ``state_dict`` into this module and its children.

        Args:
            state_dict: values by qualified name, as :meth:`state_dict` returns them.
            strict: raise if names are missing or unexpected.
            assign: put the given tensors in place of the present ones instead of copying into them.

        Returns:
            A named tuple of ``missing_keys`` and ``unexpected_keys``.

        Raises:
            RuntimeError: names or shapes do not match.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        copied: Any = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata

        _load(self, copied, "", metadata, assign, _IncompatibleKeys(missing_keys, unexpected_keys), error_msgs)
        if strict:
            for what, keys in (("Unexpected", unexpected_keys), ("Missing", missing_keys)):
                if keys:
                    quoted = ", ".join(f'"{key}"' for key in keys)
                    error_msgs.insert(0, f"{what} key(s) in state_dict: {quoted}. ")
        if error_msgs:
            details = "\n\t".join(error_msgs)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{details}")
        return _IncompatibleKeys(missing_keys, unexpected_keys)
