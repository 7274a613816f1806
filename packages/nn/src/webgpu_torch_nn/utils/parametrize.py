"""Tensors of a module that are functions of others: ``torch.nn.utils.parametrize``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.tensors.swapping import swap_tensors

from webgpu_torch_nn.modules._future import get_swap_module_params_on_conversion
from webgpu_torch_nn.modules.container import ModuleDict, ModuleList
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.parameter import Parameter

_cache_enabled = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrised tensor at most once inside this context."""
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _place(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _replace(target: Tensor, value: Tensor) -> None:
    """Give a tensor other contents, sharing their memory unless they are a view of it; classes too, where tensors are swapped."""
    if target is not value and (get_swap_module_params_on_conversion() or hasattr(target, "__tensor_flatten__")):
        if isinstance(target, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, requires_grad=target.requires_grad)
        swap_tensors(target, value)
        return
    with torch.no_grad():
        if target is not value and target.data_ptr() != value.data_ptr():
            target.data = value.detach()


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, in turn, and the tensors that the first is a function of.

    These are ``original``, or ``original0``, ``original1``, … if the first one's ``right_inverse`` returns several.

    Raises:
        ValueError: there are no modules, or (unless ``unsafe``) they change the tensor's shape or type.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, kind = original.shape, original.dtype
        new: Any = original
        with torch.no_grad():
            for module in reversed(list(self)):
                inverse: Any = getattr(module, "right_inverse", None)
                if inverse is not None:
                    with contextlib.suppress(NotImplementedError):
                        # An object of its own: what is made of the original may take its place and keep it.
                        new = inverse(new.detach() if new is original else new)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            _replace(original, new)
            _place(self, "original", original)
        else:
            for index, each in enumerate(new):
                if not isinstance(each, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {index} of the sequence with type {type(each).__name__}."
                    )
                if isinstance(original, Parameter):
                    each = Parameter(each, original.requires_grad)
                each.requires_grad_(original.requires_grad)
                _place(self, f"original{index}", each)
        if not unsafe:
            self._check(shape, kind)

    def _check(self, shape: Any, kind: Any) -> None:
        result = self()
        if not isinstance(result, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        text = "Registering a parametrization may not change the {0} of the tensor, unless `unsafe` flag is enabled.\n"
        if result.dtype != kind:
            raise ValueError(text.format("dtype") + f"unparametrized dtype: {kind}\nparametrized dtype: {result.dtype}")
        if result.shape != shape:
            raise ValueError(
                text.format("shape") + f"unparametrized shape: {shape}\nparametrized shape: {result.shape}"
            )

    def right_inverse(self, value: Any) -> None:
        """Set the original tensors so that the parametrised one becomes a value, as far as it can.

        Raises:
            RuntimeError: a parametrisation has no ``right_inverse``.
        """
        with torch.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else list(value)
            names = ["original"] if self.is_tensor else [f"original{index}" for index in range(self.ntensors)]
            if len(values) != len(names):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(values)}."
                )
            for name, each in zip(names, values, strict=True):
                target = getattr(self, name)
                if each.dtype != target.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {each.dtype} while `{name}` has dtype "
                        f"{target.dtype}"
                    )
                _replace(target, each)

    def forward(self) -> Tensor:
        first, *rest = list(self)
        if self.is_tensor:
            result = first(self.original)
        else:
            result = first(*(getattr(self, f"original{index}") for index in range(self.ntensors)))
        for module in rest:
            result = module(result)
        return result


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    found = memo.get(id(self))
    if found is None:
        found = memo[id(self)] = self.__new__(type(self))
        found.__dict__ = deepcopy(self.__dict__, memo)
    return found


def _refuse_pickling(self: Any) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _give_class(module: Module) -> None:
    """Give a module a class of its own, where properties stand for its parametrised tensors."""
    kind = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_pickling}
    if not hasattr(kind, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _give_property(module: Module, name: str) -> None:
    def compute(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _cache_enabled:
            return parametrization()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(compute, assign))


def _check_inverse(parametrization: Module, value: Tensor, present: Tensor, name: str) -> None:
    """Raise a ValueError where the inverse of one more parametrisation does not lead to a tensor like the present one."""
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        original = parametrization.right_inverse(value)
    except NotImplementedError:
        return
    if not isinstance(original, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(original).__name__}")
    refusal = f"The tensor returned by parametrization.right_inverse must have the same {{what}} as module.{name}"
    _require_alike(present, original, name, refusal, "returned {what}")


def _require_alike(present: Tensor, other: Tensor, name: str, refusal: str, shown: str) -> None:
    """Raise a ValueError where a tensor has another type or shape than a module's; ``{what}`` in the texts is which."""
    for what in ("dtype", "shape"):
        wanted, found = getattr(present, what), getattr(other, what)
        if wanted != found:
            raise ValueError(
                f"{refusal.replace('{what}', what)}, unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {wanted}\n"
                f"{shown.replace('{what}', what)}: {found}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer a function of another: ``module.name`` is ``parametrization(original)`` from now on.

    ``parametrization.right_inverse``, if there is one, computes the original from the present value, and from values
    that are assigned. The original is at ``module.parametrizations.name.original``. Further ones are applied in turn.

    Args:
        module, tensor_name: whose tensor.
        parametrization: a module.
        unsafe: whether it may change shape or type.

    Raises:
        ValueError: there is no such tensor, or shape or type would change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            present = getattr(module, tensor_name)
            changed = parametrization(present)
            if not isinstance(changed, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(changed).__name__}.")
            refusal = "Registering a parametrization may not change the {what} of the tensor"
            _require_alike(present, changed, tensor_name, refusal, f"parametrization(module.{tensor_name}).{{what}}")
            _check_inverse(parametrization, changed, present, tensor_name)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        held = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = held
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module, or one of its tensors, is parametrised."""
    held = getattr(module, "parametrizations", None)
    if held is None or not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrised tensor an ordinary one again: with its present value, or as its original.

    Raises:
        ValueError: the tensor is not parametrised, or its original is several tensors and it should be left as that.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with torch.no_grad():
                _replace(original, getattr(module, tensor_name).clone())
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _place(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return a module's class as it was before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give another module the same parametrisations, with copies of the originals."""
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        held = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for each in held:
            register_parametrization(to_module, name, deepcopy(each), unsafe=held.unsafe)
        target = to_module.parametrizations[name]
        names = ["original"] if held.is_tensor else [f"original{index}" for index in range(held.ntensors)]
        for each in names:
            setattr(target, each, deepcopy(getattr(held, each)))
    return to_module
