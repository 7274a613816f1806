"""The base class of all neural network modules."""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.changes import Hooks, Registry, changed

from webgpu_torch_nn.modules import _hooks
from webgpu_torch_nn.modules._conversion import ConversionMixin, clear_grad, typename
from webgpu_torch_nn.modules._hooks import (
    HookMixin,
    global_buffer_registration_hooks,
    global_module_registration_hooks,
    global_parameter_registration_hooks,
)
from webgpu_torch_nn.modules._hooks import register_module_backward_hook as register_module_backward_hook
from webgpu_torch_nn.modules._hooks import (
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
)
from webgpu_torch_nn.modules._hooks import register_module_forward_hook as register_module_forward_hook
from webgpu_torch_nn.modules._hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from webgpu_torch_nn.modules._hooks import register_module_full_backward_hook as register_module_full_backward_hook
from webgpu_torch_nn.modules._hooks import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from webgpu_torch_nn.modules._hooks import (
    register_module_module_registration_hook as register_module_module_registration_hook,
)
from webgpu_torch_nn.modules._hooks import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from webgpu_torch_nn.modules._state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from webgpu_torch_nn.modules._state import StateMixin
from webgpu_torch_nn.modules._state import _IncompatibleKeys as _IncompatibleKeys
from webgpu_torch_nn.parameter import Buffer, Parameter
from webgpu_torch_nn.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from typing import Self


def _indent(text: str, spaces: int) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line if line.strip() else "" for line in rest)])


def _apply_registration_hooks(hooks: OrderedDict[int, Callable], module: Module, name: str, value: Any) -> Any:
    for hook in hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


_REGISTRIES_OF_HOOKS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Module(ConversionMixin, HookMixin, StateMixin):
    """Base class of all modules: subclasses assign parameters and submodules in ``__init__`` and define ``forward``."""

    dump_patches: bool = False
    call_super_init: bool = False
    _version: int = 1
    _compiled_call_impl: Callable | None = None
    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        # Written to __dict__ because __setattr__ looks for parameters and modules on every assignment.
        self.__dict__.update(
            training=True,
            _parameters=Registry(),
            _buffers=Registry(),
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=Hooks(),
            _backward_hooks=Hooks(),
            _is_full_backward_hook=None,
            _forward_hooks=Hooks(),
            _forward_hooks_with_kwargs=Hooks(),
            _forward_hooks_always_called=Hooks(),
            _forward_pre_hooks=Hooks(),
            _forward_pre_hooks_with_kwargs=Hooks(),
            _state_dict_hooks=Hooks(),
            _state_dict_pre_hooks=Hooks(),
            _load_state_dict_pre_hooks=Hooks(),
            _load_state_dict_post_hooks=Hooks(),
            _modules=Registry(),
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any) -> Any:
        """Compute the module's output; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    _wrapped_call_impl = __call__

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's call in place with :func:`torch.compile`."""
        self._compiled_call_impl = torch.compile(self._call_impl, *args, **kwargs)

    # Registration.

    def _check_name(self, kind: str, name: Any, registry: dict) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if kind == "module":
            # PyTorch looks for a clash before it looks at the spelling, for modules only.
            if hasattr(self, name) and name not in registry:
                raise KeyError(f"attribute '{name}' already exists")
            if "." in name:
                raise KeyError(f'module name can\'t contain ".", got: {name}')
        elif "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not a parameter; a persistent one is part of ``state_dict``."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not (isinstance(tensor, Tensor) or hasattr(tensor, "__torch_function__")):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _apply_registration_hooks(global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or a name whose parameter is absent."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param.grad_fn:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = _apply_registration_hooks(global_parameter_registration_hooks, self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under ``name``."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = _apply_registration_hooks(global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias of :meth:`add_module`."""
        self.add_module(name, module)

    # Attributes.

    def __getattr__(self, name: str) -> Any:
        # Asked for by every access to a parameter or submodule.
        own = self.__dict__
        if "_parameters" in own and name in (values := own["_parameters"]):
            return values[name]
        if "_modules" in own and name in (values := own["_modules"]):
            return values[name]
        if "_buffers" in own and name in (values := own["_buffers"]):
            return values[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name: str, *registries: Any) -> None:
        for registry in registries:
            if isinstance(registry, set):
                registry.discard(name)
            else:
                registry.pop(name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        parameters, modules, buffers = own.get("_parameters"), own.get("_modules"), own.get("_buffers")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, own, buffers, modules, self._non_persistent_buffers_set)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, own, parameters, buffers, self._non_persistent_buffers_set)
            modules[name] = _apply_registration_hooks(global_module_registration_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = _apply_registration_hooks(global_module_registration_hooks, self, name, value)
        elif (buffers is not None and name in buffers) or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)
            changed()

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not (isinstance(value, Tensor) or hasattr(value, "__torch_function__")):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.__dict__["persistent"]
        else:
            persistent = name not in self._non_persistent_buffers_set
        self.register_buffer(name, value, persistent)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)
            changed()

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        # Files hold ordinary dictionaries, which no reader has to allow.
        for name, each in state.items():
            if isinstance(each, Registry):
                state[name] = dict(each)
        return state

    def __setstate__(self, state: dict) -> None:
        # What PyTorch's versions before this one did not save starts empty.
        fresh: dict[str, Any] = {name: Hooks() for name in _REGISTRIES_OF_HOOKS}
        fresh |= {"_non_persistent_buffers_set": set(), "_is_full_backward_hook": None}
        own = fresh | state
        for names, kind in ((_REGISTRIES_OF_HOOKS, Hooks), (("_parameters", "_buffers", "_modules"), Registry)):
            own |= {name: kind(own[name]) for name in names if name in own and not isinstance(own[name], kind)}
        registries = [own[name] for name in _REGISTRIES_OF_HOOKS]
        for each in own.values():
            if isinstance(each, RemovableHandle):
                each.hooks_dict_ref, *extras = [weakref.ref(found) for found in registries if each.id in found] or [
                    each.hooks_dict_ref
                ]
                each.extra_dict_ref = tuple(extras)
        self.__dict__.update(own)
        changed()

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    # Look-up by name.

    def get_submodule(self, target: str) -> Module:
        """Return the submodule of the given dotted name; the empty name is this module."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` at the given dotted name; with ``strict`` only where a module already is."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent_name, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_name)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of the given dotted name."""
        parent_name, _, name = target.rpartition(".")
        module = self.get_submodule(parent_name)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        parameter = getattr(module, name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor | None:
        """Return the buffer of the given dotted name."""
        parent_name, _, name = target.rpartition(".")
        module = self.get_submodule(parent_name)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # Iteration.

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for module_prefix, module in modules:
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{module_prefix}.{name}" if module_prefix else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over the parameters and their qualified names."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the buffers and their qualified names."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Iterate over the immediate submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over the immediate submodules and their names."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over this module and all below it, with their qualified names."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    # Modes and gradients.

    def train(self, mode: bool = True) -> Self:
        """Set training mode, or evaluation mode if ``mode`` is False, here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether autograd computes gradients of the parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or zero them in place."""
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none)

    # Text.

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return the arguments to print between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_indent(repr(module), 2)}" for name, module in self._modules.items()]
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        lines = extra_lines + child_lines
        body = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({body})"


def _held(name: str) -> property:
    """Return an attribute of this file that has hooks of all modules, which programs replace to be rid of them."""

    def replace(_: ModuleType, hooks: dict[int, Callable]) -> None:
        own = getattr(_hooks, name)
        if own is not hooks:
            own.clear()
            own.update(hooks)

    return property(lambda _: getattr(_hooks, name), replace)


def _replace_form(_: ModuleType, full: bool | None) -> None:
    _hooks.global_backward_form["full"] = full


class _WithHooks(ModuleType):
    """This file, with PyTorch's names of the hooks of all modules."""


for _name in _hooks.OF_ALL_MODULES:
    setattr(_WithHooks, f"_{_name}", _held(_name))
_WithHooks._global_is_full_backward_hook = property(  # type: ignore[attr-defined]
    lambda _: _hooks.global_backward_form["full"], _replace_form
)
sys.modules[__name__].__class__ = _WithHooks
