"""The base class of optimisers: parameter groups, state, saving and loading, hooks."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import wraps
from itertools import chain
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.backend import profiling
from webgpu_torch_core.notices import warn
from webgpu_torch_core.record.changes import Hooks, changed
from webgpu_torch_core.record.devices import flush
from webgpu_torch_core.replay.numbers import is_number

from webgpu_torch_nn.modules._conversion import clear_grad, typename
from webgpu_torch_nn.optim.states import ParameterState, to_scalar
from webgpu_torch_nn.optim.states import _get_scalar_dtype as _get_scalar_dtype
from webgpu_torch_nn.utils.hooks import RemovableHandle


class _RequiredParameter:
    """Marks an option without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def arguments(scope: dict[str, object]) -> dict[str, object]:
    """Return what an optimiser's ``__init__`` was given besides the parameters: its ``locals()``, by name."""
    return {name: value for name, value in scope.items() if name not in ("self", "params", "__class__")}


_get_value = _to_scalar = to_scalar


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return that neither a fused nor a listwise form is to be chosen: the engine merges the kernels of all parameters."""
    return False, False


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """Return a step that records gradients only where the optimiser's ``differentiable`` option says so."""

    @wraps(func)
    def stepped(self: Optimizer, *args: object, **kwargs: object) -> object:
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return func(self, *args, **kwargs)

    return stepped


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable[[Callable], Callable]:
    """Return a decorator that returns its function: there is no tracer to keep out."""
    return lambda function: function


def _stack_if_compiling(x: list[object]) -> list[object]:
    """Return the numbers as they are: captured steps read them again."""
    return x


_global_optimizer_pre_hooks: OrderedDict[int, Callable] = Hooks()
_global_optimizer_post_hooks: OrderedDict[int, Callable] = Hooks()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimiser; it may return new arguments."""
    handle = RemovableHandle(_global_optimizer_pre_hooks)
    _global_optimizer_pre_hooks[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimiser."""
    handle = RemovableHandle(_global_optimizer_post_hooks)
    _global_optimizer_post_hooks[handle.id] = hook
    return handle


def _with_hooks(step: Callable) -> Callable:
    """Wrap an optimiser's ``step`` so that the step hooks run around it."""

    @wraps(step)
    def wrapped(self: Optimizer, *given: Any, **kwargs: Any) -> Any:
        # As in PyTorch, hooks see the optimiser as the first argument.
        args: tuple[Any, ...] = (self, *given)
        for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            replaced = hook(self, args, kwargs)
            if replaced is not None:
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                    )
                args, kwargs = replaced
        result = step(*args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
            hook(self, args, kwargs)
        # Where every step ends, so that each step of a loop that reads nothing records the same programs.
        flush()
        return result

    wrapped.hooked = True  # type: ignore[attr-defined]
    return wrapped


class Optimizer:
    """Base class of all optimisers.

    Args:
        params: tensors, (name, tensor) pairs, or dictionaries that each describe one parameter group.
        defaults: the options of groups that do not set them.

    Attributes:
        param_groups: a list of dictionaries: "params" and the options.
        state: what the optimiser remembers, by parameter.
    """

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        for option in ("differentiable", "foreach"):
            if defaults.get("fused") and defaults.get(option):
                together = "`fused` and `foreach` cannot be `True` together."
                raise RuntimeError(together if option == "foreach" else "`fused` does not support `differentiable`")
        self.defaults = defaults
        self._initialise_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + typename(params)
            )
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def _initialise_hooks(self) -> None:
        # Here and not when the class is made: subclasses that only pass calls on to another optimiser have no hooks.
        kind = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = _with_hooks(kind.step)  # type: ignore[method-assign]
        self._optimizer_step_pre_hooks: OrderedDict[int, Callable] = Hooks()
        self._optimizer_step_post_hooks: OrderedDict[int, Callable] = Hooks()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Callable] = Hooks()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Callable] = Hooks()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable] = Hooks()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable] = Hooks()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        changed()
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._initialise_hooks()

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for index, group in enumerate(self.param_groups):
            text += f"\nParameter Group {index}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # Hooks.

    @staticmethod
    def _register(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step; it may return new ones."""
        return self._register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return self._register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before :meth:`state_dict`."""
        return self._register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after :meth:`state_dict`; it may return another one."""
        return self._register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; it may return another one."""
        return self._register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return self._register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # Saving and loading.

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups, with parameters replaced by their positions."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        positions: dict[int, int] = {}
        start, packed_groups = 0, []
        for group in self.param_groups:
            for offset, parameter in enumerate(group["params"]):
                positions.setdefault(id(parameter), start + offset)
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [positions[id(parameter)] for parameter in group["params"]]
            packed_groups.append(packed)
        packed_state = {
            (positions[id(key)] if isinstance(key, Tensor) else key): self._packed(value)
            for key, value in self.state.items()
        }
        result = {"state": packed_state, "param_groups": packed_groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    @staticmethod
    def _packed(value: Any) -> Any:
        """Return what files have of a parameter's state."""
        return value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state and the options that :meth:`state_dict` returned, also that of PyTorch.

        Raises:
            ValueError: the groups differ in number or in size.
        """
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        own_groups, saved_groups = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(own_groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(o["params"]) != len(s["params"]) for o, s in zip(own_groups, saved_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        saved_ids = chain.from_iterable(group["params"] for group in saved_groups)
        parameters = dict(zip(saved_ids, chain.from_iterable(g["params"] for g in own_groups), strict=True))
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in parameters:
                state[parameters[key]] = self._cast(parameters[key], value)
            else:
                state[key] = value
        for own, saved in zip(own_groups, saved_groups, strict=True):
            saved["params"] = own["params"]
            if "param_names" in own and "param_names" not in saved:
                saved["param_names"] = own["param_names"]
            for option, default in self.defaults.items():
                # Files of older versions lack the newer options.
                saved.setdefault(option, default)
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _cast(self, parameter: Tensor, value: Any, key: Any = None) -> Any:
        """Return loaded state on the parameter's device and in its dtype; a count of steps as it is."""
        if key == "step":
            return value
        if isinstance(value, Tensor):
            # What needs no conversion is the very tensor that was saved, as in PyTorch.
            if parameter.is_floating_point():
                return value.to(device=parameter.device, dtype=parameter.dtype)
            return value.to(device=parameter.device)
        if isinstance(value, dict):
            return {name: self._cast(parameter, item, name) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._cast(parameter, item) for item in value)
        return value

    # Use.

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or zero them in place."""
        profiling.timed(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad", self._zero_grad, set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_grad(parameter, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by their gradients; ``closure`` recomputes the loss first and is returned from."""
        raise NotImplementedError

    def _describe_for_recording(self, description: Any) -> Any:
        """Describe all that a step depends on but the numbers, which replays read again."""

        def option(value: Any) -> Any:
            if value.__class__ is tuple:
                return tuple([option(each) for each in value])
            return float if is_number(value) else description.of(value)

        def state(values: Any) -> Any:
            if not isinstance(values, dict):
                return description.of(values)
            values = values.kept if isinstance(values, ParameterState) else values
            description.holders.append(values)
            for name, each in values.items():
                if not is_number(each):
                    description.observed.variable(values, name, each)
            return tuple([(name, option(each)) for name, each in values.items()])

        groups = [tuple([(name, option(each)) for name, each in group.items()]) for group in self.param_groups]
        description.holders += self.param_groups
        states = [
            state(self.state[parameter]) if parameter in self.state else None
            for group in self.param_groups
            for parameter in group["params"]
        ]
        hooks = (
            self._optimizer_step_pre_hooks,
            self._optimizer_step_post_hooks,
            _global_optimizer_pre_hooks,
            _global_optimizer_post_hooks,
        )
        return type(self), tuple(groups), tuple(states), *[description.of(each) for each in hooks if each]

    @staticmethod
    def _evaluate(closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with options of its own.

        Raises:
            TypeError: the group is not a dictionary or holds something other than tensors.
            ValueError: a parameter is not a leaf or is in another group already, or a required option is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [entry[0] for entry in params if isinstance(entry, tuple)]
        if names and len(names) != len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        param_group["params"] = [entry[1] if isinstance(entry, tuple) else entry for entry in params]
        if names:
            param_group["param_names"] = names
        self._check_parameters(param_group["params"])
        for option, default in self.defaults.items():
            if default is required and option not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {option}")
            param_group.setdefault(option, default)
        self._check_against_other_groups(param_group)
        self.param_groups.append(param_group)
        changed()

    def _check_parameters(self, params: Iterable[Any]) -> None:
        seen: set[int] = set()
        duplicated = False
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + typename(parameter))
            if not (parameter.is_leaf or parameter.retains_grad or self.defaults.get("differentiable")):
                raise ValueError("can't optimize a non-leaf Tensor")
            duplicated |= id(parameter) in seen
            seen.add(id(parameter))
        if duplicated:
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; see "
                "github.com/pytorch/pytorch/issues/40967 for more information"
            )

    def _check_against_other_groups(self, param_group: dict[str, Any]) -> None:
        own = {id(parameter) for parameter in param_group["params"]}
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {kind} to the optimizer"
                )
            if any(id(parameter) in own for parameter in group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
