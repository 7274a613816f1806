"""Convolutions in integers, and their transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch import _empty_affine_quantized
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.utils import _reverse_repeat_tuple

from ....._quantized.packed import ConvPackedParams
from ...intrinsic.modules import fused
from ...intrinsic.qat.modules import conv_fused
from ...qat.modules import conv as trained
from .utils import (
    WeightedQuantizedModule,
    _quantize_weight,
    load_scale,
    require_type,
    save_scale,
    scale_of,
    weight_observer,
)

Sizes = int | tuple[int, ...]


class _ConvNd(WeightedQuantizedModule):
    """What quantised convolutions hold.

    Args:
        in_channels, out_channels: channels of the input ``[n, in, ...]`` and of the result.
        kernel_size, stride, padding, dilation: an integer or one for each dimension.
        groups: how many parts the channels are in that do not meet.
        bias: whether a bias ``[out]`` is added.
        padding_mode: ``"zeros"`` or ``"reflect"``.

    Raises:
        NotImplementedError: another mode.
        ValueError: channels that groups do not divide.
    """

    _dims: ClassVar[int]
    _transposed: ClassVar[bool] = False
    _relu: ClassVar[bool] = False
    _FLOAT_MODULE: ClassVar[Answer]
    #: what is fused with a ReLU, and what training makes of the convolution
    _FUSED: ClassVar[Answer] = None
    _TRAINED: ClassVar[tuple[type, ...]] = ()
    _packed_params: Answer

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Answer = None, dtype: Answer = None,
    ) -> None:  # fmt: skip
        self._begin(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, padding_mode)
        self._fill(bias, device)
        del dtype

    def _begin(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes, padding: Answer, dilation: Sizes,
        output_padding: Sizes, groups: int, padding_mode: str,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        if padding_mode not in ("zeros", "reflect"):
            raise NotImplementedError(f"Padding mode {padding_mode} is not supported by quantized convolution")
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels and out_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (
            in_channels,
            out_channels,
            groups,
            padding_mode,
        )
        self.kernel_size, self.stride, self.dilation = (self._each(each) for each in (kernel_size, stride, dilation))
        self.padding: Answer = padding if isinstance(padding, str) else self._each(padding)
        self.output_padding, self.transposed = self._each(output_padding), self._transposed
        self.scale, self.zero_point = 1.0, 0

    def _each(self, given: Sizes) -> tuple[int, ...]:
        return (given,) * self._dims if isinstance(given, int) else tuple(given)

    def _fill(self, bias: bool, device: Answer) -> None:
        ends = (self.in_channels, self.out_channels // self.groups)
        ends = ends if self._transposed else (self.out_channels, self.in_channels // self.groups)
        shape = [*ends, *self.kernel_size]
        weight = _empty_affine_quantized(shape, scale=1, zero_point=0, dtype=torch.qint8, device=device)
        self.set_weight_bias(weight, torch.zeros(self.out_channels, device=device) if bias else None)

    def _padding_of_weight(self) -> tuple[int, ...]:
        if self.padding == "same":
            return tuple(step * (size - 1) // 2 for step, size in zip(self.dilation, self.kernel_size, strict=True))
        none = (0,) * self._dims
        return none if isinstance(self.padding, str) or self.padding_mode != "zeros" else self.padding

    def set_weight_bias(self, w: Answer, b: Tensor | None) -> None:
        """Take a weight ``[out, in / groups, ...]`` and a bias ``[out]``."""
        self._packed_params = ConvPackedParams(
            w,
            b,
            self.stride,
            self._padding_of_weight(),
            self.dilation,
            self.groups,
            self.output_padding,
            self._transposed,
        )

    def _weight_bias(self) -> tuple[Answer, Tensor | None]:
        return self._packed_params.unpack()

    def weight(self) -> Answer:
        """Return the weight ``[out, in / groups, ...]``, quantised."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """Return the bias ``[out]``."""
        return self._weight_bias()[1]

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution: ``[n, out, ...]``.

        Raises:
            ValueError: another number of dimensions.
        """
        if input.ndim != self._dims + 2:
            raise ValueError(f"Input shape must be `(N, C{', L' if self._dims == 1 else ', ...'})`!")
        if self.padding_mode != "zeros":
            input = F.pad(input, list(_reverse_repeat_tuple(self._each(self.padding), 2)), mode=self.padding_mode)
        name = f"conv{'_transpose' if self._transposed else ''}{self._dims}d{'_relu' if self._relu else ''}"
        return getattr(ops.quantized, name)(input, self._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return f"QuantizedConv{'Transpose' if self._transposed else ''}{'ReLU' if self._relu else ''}{self._dims}d"

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )
        none, one = (0,) * self._dims, (1,) * self._dims
        for name, usual in (("padding", none), ("dilation", one), ("output_padding", none), ("groups", 1)):
            text += "" if getattr(self, name) == usual else f", {name}={getattr(self, name)}"
        return text + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination: dict[str, Answer], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        save_scale(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict: dict[str, Answer], prefix: str, local_metadata: dict[str, Answer], strict: bool,
        missing_keys: list[str], *rest: Answer,
    ) -> None:  # fmt: skip
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        load_scale(self, state_dict, prefix, missing_keys)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, *rest)

    def _apply(self, fn: Callable[..., Answer], recurse: bool = True) -> Answer:
        weight, bias = self._weight_bias()
        moved = fn(torch.empty(0, device=weight.device)).device
        if moved != weight.device:
            self.set_weight_bias(weight.to(moved), None if bias is None else bias.detach().to(moved))
        return super()._apply(fn, recurse)

    @classmethod
    def get_qconv(cls, mod: Answer, activation_post_process: Answer, weight_post_process: Answer = None) -> Answer:
        """Return the convolution for one in floating-point numbers, with the scales that observers found.

        Raises:
            AssertionError: the weight is to be of another type than ``torch.qint8``.
        """
        observer = weight_observer(mod) if weight_post_process is None else weight_post_process
        if observer.dtype is not torch.qint8:
            raise AssertionError("Weight observer must have a dtype of qint8")
        slides = (mod.stride, mod.padding, *((mod.output_padding,) if cls._transposed else ()))
        ends = (mod.groups, mod.bias is not None)
        order = (*slides, *ends, mod.dilation) if cls._transposed else (*slides, mod.dilation, *ends)
        made: Answer = cls(mod.in_channels, mod.out_channels, mod.kernel_size, *order, padding_mode=mod.padding_mode)
        made.set_weight_bias(_quantize_weight(mod.weight.detach().float(), observer), mod.bias)
        made.scale, made.zero_point = scale_of(activation_post_process)
        return made

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the convolution for one in floating-point numbers that observed what it was given.

        Raises:
            AssertionError: the module is no such convolution.
        """
        activation = getattr(mod, "activation_post_process", None)
        if isinstance(mod, conv_fused._ConvBnNd):
            mod.weight, mod.bias = mod.fused_weight_and_bias()
        elif not hasattr(mod, "weight_fake_quant"):
            require_type(cls, mod, (cls._FLOAT_MODULE, *(() if cls._FUSED is None else (cls._FUSED,))))
            if isinstance(mod, nn.Sequential):
                # Fused with what follows it, which may have observed for both.
                activation = getattr(mod, "activation_post_process", getattr(mod[1], "activation_post_process", None))
                mod = mod[0]
        return cls.get_qconv(mod, activation)

    @classmethod
    def from_reference(cls, ref_module: Answer, output_scale: float, output_zero_point: int) -> Answer:
        """Return the convolution for one that computes in floating-point numbers what this one does in integers."""
        made: Answer = cls(
            ref_module.in_channels, ref_module.out_channels, ref_module.kernel_size, ref_module.stride, ref_module.padding,
            ref_module.dilation, ref_module.groups, ref_module.bias is not None, ref_module.padding_mode,
        )  # fmt: skip
        made.set_weight_bias(ref_module.get_quantized_weight(), ref_module.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


class Conv1d(_ConvNd):
    """:class:`torch.nn.Conv1d` in integers: input ``[n, in, length]``, quantised, and so the result."""

    _dims, _FLOAT_MODULE, _FUSED = 1, nn.Conv1d, fused.ConvReLU1d


class Conv2d(_ConvNd):
    """:class:`torch.nn.Conv2d` in integers: input ``[n, in, height, width]``, quantised, and so the result."""

    _dims, _FLOAT_MODULE, _FUSED, _TRAINED = 2, nn.Conv2d, fused.ConvReLU2d, (trained.Conv2d,)


class Conv3d(_ConvNd):
    """:class:`torch.nn.Conv3d` in integers: input ``[n, in, depth, height, width]``, quantised, and so the result."""

    _dims, _FLOAT_MODULE, _FUSED, _TRAINED = 3, nn.Conv3d, fused.ConvReLU3d, (trained.Conv3d,)


class _ConvTransposeNd(_ConvNd):
    _transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
        groups: int = 1, bias: bool = True, dilation: Sizes = 1, padding_mode: str = "zeros", device: Answer = None,
        dtype: Answer = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._begin(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, padding_mode
        )
        self._fill(bias, device)
        del dtype


class ConvTranspose1d(_ConvTransposeNd):
    """:class:`torch.nn.ConvTranspose1d` in integers: input ``[n, in, length]``, quantised, and so the result."""

    _dims, _FLOAT_MODULE = 1, nn.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    """:class:`torch.nn.ConvTranspose2d` in integers: input ``[n, in, height, width]``, quantised, and so the result."""

    _dims, _FLOAT_MODULE = 2, nn.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    """:class:`torch.nn.ConvTranspose3d` in integers: input ``[n, in, depth, height, width]``, quantised, and so the result."""

    _dims, _FLOAT_MODULE = 3, nn.ConvTranspose3d
