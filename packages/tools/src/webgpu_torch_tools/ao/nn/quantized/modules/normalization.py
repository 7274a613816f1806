"""Normalisations of quantised tensors whose results have a scale of their own."""

from __future__ import annotations

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor

from .utils import scale_of


class _Normalised:
    """What keeps the scale and the zero point of its results as buffers, beside a weight and a bias."""

    def _take(self, weight: Answer, bias: Answer, scale: float, zero_point: int, device: Answer) -> None:
        module: Answer = self
        module.weight, module.bias = weight, bias
        module.register_buffer("scale", torch.tensor(scale, device=device))
        module.register_buffer("zero_point", torch.tensor(zero_point, device=device))

    def _plain(self) -> tuple[Answer, ...]:
        module: Answer = self
        pair = (None if each is None else each.detach() for each in (module.weight, module.bias))
        return (*pair, module.eps, float(module.scale), int(module.zero_point))

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


class LayerNorm(_Normalised, nn.LayerNorm):
    """:class:`torch.nn.LayerNorm` of a quantised tensor ``[..., *normalized_shape]``.

    Args:
        normalized_shape: the last sizes.
        weight, bias: of these sizes.
        scale, zero_point: of the result.
        eps: what is added to the variance.
        elementwise_affine: whether there are a weight and a bias.
    """

    def __init__(
        self, normalized_shape: Answer, weight: Answer, bias: Answer, scale: float, zero_point: int, eps: float = 1e-5,
        elementwise_affine: bool = True, device: Answer = None, dtype: Answer = None,
    ) -> None:  # fmt: skip
        nn.LayerNorm.__init__(self, normalized_shape, eps, elementwise_affine, device=device, dtype=dtype)
        self._take(weight, bias, scale, zero_point, device)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised numbers: of the argument's shape."""
        return ops.quantized.layer_norm(input, list(self.normalized_shape), *self._plain())

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> LayerNorm:
        """Return the normalisation for one that observed what it gave."""
        ends = scale_of(mod.activation_post_process)
        return cls(mod.normalized_shape, mod.weight, mod.bias, *ends, mod.eps, mod.elementwise_affine)


class GroupNorm(_Normalised, nn.GroupNorm):
    """:class:`torch.nn.GroupNorm` of a quantised tensor ``[n, c, ...]``.

    Args:
        num_groups, num_channels: how many groups the channels are in.
        weight, bias: ``[c]``.
        scale, zero_point: of the result.
        eps: what is added to the variance.
        affine: whether there are a weight and a bias.
    """

    def __init__(
        self, num_groups: int, num_channels: int, weight: Answer, bias: Answer, scale: float, zero_point: int, eps: float = 1e-5,
        affine: bool = True, device: Answer = None, dtype: Answer = None,
    ) -> None:  # fmt: skip
        nn.GroupNorm.__init__(self, num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        self._take(weight, bias, scale, zero_point, device)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised numbers: of the argument's shape."""
        return ops.quantized.group_norm(input, self.num_groups, *self._plain())

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> GroupNorm:
        """Return the normalisation for one that observed what it gave."""
        ends = scale_of(mod.activation_post_process)
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, *ends, mod.eps, mod.affine)


class _InstanceNorm(_Normalised):
    def __init__(
        self, num_features: int, weight: Answer, bias: Answer, scale: float, zero_point: int, eps: float = 1e-5,
        momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: Answer = None,
        dtype: Answer = None,
    ) -> None:  # fmt: skip
        module: Answer = super()
        module.__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self._take(weight, bias, scale, zero_point, device)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised numbers: of the argument's shape."""
        return ops.quantized.instance_norm(input, *self._plain())

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the normalisation for one that observed what it gave."""
        ends = scale_of(mod.activation_post_process)
        return cls(mod.num_features, mod.weight, mod.bias, *ends, mod.eps, mod.affine)


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """:class:`torch.nn.InstanceNorm1d` of a quantised tensor ``[n, c, length]``."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """:class:`torch.nn.InstanceNorm2d` of a quantised tensor ``[n, c, height, width]``."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """:class:`torch.nn.InstanceNorm3d` of a quantised tensor ``[n, c, depth, height, width]``."""
