"""What quantised modules with weights have in common."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable

import webgpu_torch_core as torch
from webgpu_torch import quantize_per_channel, quantize_per_tensor
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module


class WeightedQuantizedModule(Module, metaclass=ABCMeta):
    """A quantised module that is made of one with weights in floating-point numbers."""

    @classmethod
    @abstractmethod
    def from_reference(cls, ref_module: Module, output_scale: float, output_zero_point: int) -> Answer:
        """Return the module for one that computes in floating-point numbers what this one does in integers."""


def _quantize_weight(float_wt: Tensor, observer: Answer) -> Answer:
    """Return a weight of any shape as integers, with the scales that an observer found.

    Raises:
        ValueError: another scheme.
    """
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (torch.per_tensor_symmetric, torch.per_tensor_affine):
        return quantize_per_tensor(float_wt, float(scale), int(zero_point), observer.dtype)
    if observer.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        scales, zero_points = scale.to("cpu", torch.double), zero_point.to("cpu", torch.int64)
        return quantize_per_channel(float_wt, scales, zero_points, observer.ch_axis, observer.dtype)
    if observer.qscheme is torch.per_channel_affine_float_qparams:
        pair = scale.to(torch.float32), zero_point.to(torch.float32)
        return quantize_per_channel(float_wt, *pair, observer.ch_axis, observer.dtype)
    raise ValueError(f"Unexpected qscheme {observer.qscheme}")


def _hide_packed_params_repr(self: Module, params: type | tuple[type, ...]) -> str:
    """Return a module's text without the modules of some classes."""
    shown = {name: each for name, each in self._modules.items() if not isinstance(each, params)}
    lines = [f"({name}): " + repr(each).replace("\n", "\n  ") for name, each in shown.items()]
    extra = self.extra_repr()
    inside = [*([extra] if extra else []), *lines]
    if not lines:
        return f"{self._get_name()}({extra})"
    return f"{self._get_name()}(\n  " + "\n  ".join(inside) + "\n)"


def scale_of(observer: Answer) -> tuple[float, int]:
    """Return an observer's scale and zero point as numbers; 1 and 0 where nothing observes."""
    if observer is None or not hasattr(observer, "calculate_qparams"):
        return 1.0, 0
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)


def weight_observer(mod: Answer) -> Answer:
    """Return an observer that has seen a module's weight: the module's own, or one of its configuration."""
    found = mod.qconfig.weight() if getattr(mod, "weight_fake_quant", None) is None else mod.weight_fake_quant
    found(mod.weight)
    return found


def save_scale(module: Answer, destination: dict[str, Answer], prefix: str) -> None:
    """Write a module's scale and zero point into its state: ``[]`` and ``[]``."""
    destination[prefix + "scale"] = torch.tensor(module.scale)
    destination[prefix + "zero_point"] = torch.tensor(module.zero_point)


def load_scale(module: Answer, state_dict: dict[str, Answer], prefix: str, missing_keys: Answer) -> None:
    """Take a module's scale and zero point out of a state."""
    for name, kind in (("scale", float), ("zero_point", int)):
        key = prefix + name
        if key in state_dict:
            setattr(module, name, kind(state_dict.pop(key)))
        elif missing_keys is not None:
            missing_keys.append(key)


def require_type(cls: type, mod: object, allowed: Iterable[type]) -> None:
    """Raise where a module is none that a quantised one is made of.

    Raises:
        AssertionError: it is not.
    """
    kinds = list(allowed)
    if type(mod) not in kinds:
        names = [each.__name__ for each in kinds]
        raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {names}, but got: {type(mod)}")
