"""Weights as a length and a direction, by a hook; :mod:`webgpu_torch_nn.utils.parametrizations` has the newer form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from webgpu_torch_nn.modules.module import Module


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return norms over all dimensions but one, which keeps its place; dimension -1 stands for none."""
    if dim == -1:
        return torch.linalg.vector_norm(v, pow)
    return torch.linalg.vector_norm(v, pow, dim=[each for each in range(v.ndim) if each != dim], keepdim=True)


def scaled_direction(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """Return ``g v / ‖v‖``."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook that computes the weight before every forward pass."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """Return the weight of length and direction."""
        return scaled_direction(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a weight ``g v / ‖v‖`` with parameters ``weight_g`` and ``weight_v`` (Salimans and Kingma, 2016).

    Raises:
        RuntimeError: the weight has the hook already.
        ValueError: the weight has no size yet.
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    made = WeightNorm(name, dim)
    weight = getattr(module, name)
    if is_lazy(weight):
        raise ValueError(
            "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward before "
            "applying weight normalization"
        )
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, 2, made.dim).data))
    module.register_parameter(name + "_v", Parameter(weight.data))
    setattr(module, name, made.compute_weight(module))
    module.register_forward_pre_hook(made)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo :func:`weight_norm`.

    Raises:
        ValueError: the weight has no such hook.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
