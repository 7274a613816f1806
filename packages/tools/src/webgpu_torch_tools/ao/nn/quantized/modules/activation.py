"""Activations of quantised tensors whose results have a scale of their own."""

from __future__ import annotations

from typing import ClassVar

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch import quantize_per_tensor
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor

from .utils import _quantize_weight, scale_of


class ReLU6(nn.ReLU):
    """The numbers between 0 and 6, element by element, of a quantised tensor.

    Args:
        inplace: write them over the argument.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the numbers: of the argument's shape, with its scale."""
        return ops.quantized.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: nn.Module, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """Return the activation for one of floating-point numbers."""
        return ReLU6(mod.inplace)  # type: ignore[arg-type]


class _Scaled:
    """Activations that keep the scale and the zero point of their results as buffers."""

    _quantized_name: ClassVar[str]
    scale: Tensor
    zero_point: Tensor

    def _keep(self, scale: float, zero_point: int, device: Answer = None) -> None:
        module: Answer = self
        module.register_buffer("scale", torch.tensor(scale, device=device))
        module.register_buffer("zero_point", torch.tensor(zero_point, device=device))

    def _end(self) -> tuple[float, int]:
        return float(self.scale), int(self.zero_point)

    def _get_name(self) -> str:
        return self._quantized_name

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the activation for one that observed what it gave."""
        return cls._made(mod, *scale_of(mod.activation_post_process))

    @classmethod
    def from_reference(cls, mod: Answer, scale: float, zero_point: int) -> Answer:
        """Return the activation for one of floating-point numbers, with the scale of its results."""
        return cls._made(mod, float(scale), int(zero_point))

    @classmethod
    def _made(cls, mod: Answer, scale: float, zero_point: int) -> Answer:
        return cls(scale, zero_point)  # type: ignore[call-arg]


class Hardswish(_Scaled, nn.Hardswish):
    """:class:`torch.nn.Hardswish` of a quantised tensor.

    Args:
        scale, zero_point: of the result.
    """

    _quantized_name = "QuantizedHardswish"

    def __init__(self, scale: float, zero_point: int, device: Answer = None, dtype: Answer = None) -> None:
        nn.Hardswish.__init__(self)
        self._keep(scale, zero_point, device)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation: of the argument's shape."""
        return ops.quantized.hardswish(input, *self._end())


class ELU(nn.ELU):
    """:class:`torch.nn.ELU` of a quantised tensor.

    Args:
        scale, zero_point: of the result.
        alpha: the limit of the negative numbers, negated.
    """

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation: of the argument's shape."""
        return ops.quantized.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self) -> str:
        return "QuantizedELU"

    @staticmethod
    def from_float(mod: Answer, use_precomputed_fake_quant: bool = False) -> ELU:
        """Return the activation for one that observed what it gave."""
        return ELU(*scale_of(mod.activation_post_process), mod.alpha)

    @classmethod
    def from_reference(cls, mod: Answer, scale: float, zero_point: int) -> ELU:
        """Return the activation for one of floating-point numbers, with the scale of its results."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(_Scaled, nn.LeakyReLU):
    """:class:`torch.nn.LeakyReLU` of a quantised tensor.

    Args:
        scale, zero_point: of the result.
        negative_slope: what negative numbers are multiplied with.
        inplace: accepted.
    """

    _quantized_name = "QuantizedLeakyReLU"

    def __init__(
        self,
        scale: float,
        zero_point: int,
        negative_slope: float = 1e-2,
        inplace: bool = False,
        device: Answer = None,
        dtype: Answer = None,
    ) -> None:
        nn.LeakyReLU.__init__(self, negative_slope, inplace)
        self._keep(scale, zero_point, device)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation: of the argument's shape."""
        return ops.quantized.leaky_relu(input, self.negative_slope, self.inplace, *self._end())

    @classmethod
    def _made(cls, mod: Answer, scale: float, zero_point: int) -> Answer:
        return cls(scale, zero_point, mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """:class:`torch.nn.Sigmoid` of a quantised tensor.

    Args:
        output_scale, output_zero_point: of the result.
    """

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation: of the argument's shape."""
        return ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Sigmoid:
        """Return the activation for one that observed what it gave."""
        return cls(*scale_of(mod.activation_post_process))


class Softmax(nn.Softmax):
    """:class:`torch.nn.Softmax` of a quantised tensor.

    Args:
        dim: the dimension that sums to 1.
        scale, zero_point: of the result.
    """

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input: Tensor) -> Tensor:
        """Return the shares: of the argument's shape."""
        dim = (0 if input.ndim in (0, 1, 3) else 1) if self.dim is None else self.dim
        return ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod: Answer, use_precomputed_fake_quant: bool = False) -> Softmax:
        """Return the activation for one that observed what it gave."""
        return Softmax(mod.dim, *scale_of(mod.activation_post_process))


class PReLU(nn.Module):
    """:class:`torch.nn.PReLU` of a quantised tensor.

    Args:
        output_scale, output_zero_point: of the result.
        num_parameters: how many slopes there are.
    """

    def __init__(self, output_scale: float, output_zero_point: int, num_parameters: int = 1) -> None:
        super().__init__()
        self.num_parameters, self.scale, self.zero_point = num_parameters, output_scale, output_zero_point
        self.set_weight(quantize_per_tensor(torch.full((num_parameters,), 0.25), 1.0, 0, torch.quint8))

    def set_weight(self, w: Answer) -> None:
        """Take the slopes ``[n]``, quantised."""
        self.weight = w

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation: of the argument's shape."""
        return ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> PReLU:
        """Return the activation for one that observed what it gave."""
        made = cls(*scale_of(mod.activation_post_process), mod.num_parameters)
        observer = mod.qconfig.weight()
        observer(mod.weight)
        made.set_weight(_quantize_weight(mod.weight.detach().float(), observer))
        return made
