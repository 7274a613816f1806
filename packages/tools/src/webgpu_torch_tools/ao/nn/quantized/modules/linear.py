"""Linear layers in integers."""

from __future__ import annotations

from collections.abc import Callable

import webgpu_torch_core as torch
from webgpu_torch import _empty_affine_quantized
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Linear as FloatLinear
from webgpu_torch_nn import Module
from webgpu_torch_nn.modules.linear import NonDynamicallyQuantizableLinear

from ....._quantized.packed import LinearPackedParams as _Packed
from ...intrinsic.modules.fused import LinearReLU
from ...intrinsic.qat.modules.linear_fused import LinearBn1d
from ...qat.modules.linear import Linear as TrainedLinear
from .utils import (
    WeightedQuantizedModule,
    _hide_packed_params_repr,
    _quantize_weight,
    load_scale,
    require_type,
    save_scale,
    scale_of,
    weight_observer,
)


class LinearPackedParams(Module):
    """A weight and a bias as operations take them.

    Args:
        dtype: ``torch.qint8``, or ``torch.float16`` for weights that are rounded to it.

    Raises:
        RuntimeError: another type.
    """

    _version = 3
    _packed_params: Answer

    def __init__(self, dtype: torch.dtype = torch.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype is torch.qint8:
            weight: Answer = _empty_affine_quantized([1, 1], scale=1, zero_point=0, dtype=torch.qint8)
        elif dtype is torch.float16:
            weight = torch.zeros([1, 1], dtype=torch.float)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight: Answer, bias: Tensor | None) -> None:
        """Take a weight ``[out, in]`` and a bias ``[out]``."""
        if self.dtype is torch.qint8:
            self._packed_params = _Packed(weight, bias)
        else:
            self._packed_params = HalfPacked(weight, bias)

    def _weight_bias(self) -> tuple[Answer, Tensor | None]:
        return self._packed_params.unpack()

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return x

    def _save_to_state_dict(self, destination: dict[str, Answer], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: dict[str, Answer], prefix: str, local_metadata: dict[str, Answer], *rest: Answer
    ) -> None:
        version = local_metadata.get("version") or 1
        self.dtype = torch.qint8 if version < 2 else state_dict.pop(prefix + "dtype")
        if version < 3:
            pair = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
        else:
            pair = state_dict.pop(prefix + "_packed_params")
        self.set_weight_bias(*pair)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _apply(self, fn: Callable[..., Answer], recurse: bool = True) -> Answer:
        weight, bias = self._weight_bias()
        moved = fn(torch.empty(0, device=weight.device)).device
        if moved != weight.device:
            self.set_weight_bias(weight.to(moved), None if bias is None else bias.detach().to(moved))
        return super()._apply(fn, recurse)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class HalfPacked:
    """A weight that is rounded to float16, and a bias.

    Args:
        weight: ``[out, in]``.
        bias: ``[out]``, or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        limit = torch.finfo(torch.float16).max
        self.weight = weight.detach().clamp(-limit, limit).to(torch.float16).to(torch.float32)
        self.bias = None if bias is None else bias.detach()

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """Return the weight ``[out, in]`` and the bias ``[out]``."""
        return self.weight, self.bias


class Linear(WeightedQuantizedModule):
    """``input @ weight.T + bias`` in integers: input ``[..., in_features]``, result ``[..., out_features]``, both quantised.

    Args:
        in_features, out_features: the sizes.
        bias_: whether there is a bias.
        dtype: of the weight, ``torch.qint8``.
    """

    _version = 3
    _FLOAT_MODULE: Answer = (FloatLinear, NonDynamicallyQuantizableLinear)

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: torch.dtype = torch.qint8
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = torch.zeros(out_features, dtype=torch.float) if bias_ else None
        if dtype is torch.qint8:
            made = torch.zeros(out_features, in_features)
            weight: Answer = _empty_affine_quantized(list(made.shape), scale=1, zero_point=0, dtype=torch.qint8)
        else:
            weight = torch.zeros([out_features, in_features], dtype=torch.float)
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, zero_point={self.zero_point}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result: ``[..., out_features]``."""
        return ops.quantized.linear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination: dict[str, Answer], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_scale(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict: dict[str, Answer], prefix: str, local_metadata: dict[str, Answer], strict: bool,
        missing_keys: list[str], *rest: Answer,
    ) -> None:  # fmt: skip
        load_scale(self, state_dict, prefix, missing_keys)
        version = local_metadata.get("version")
        if version is None or version == 1:
            # The weight was the layer's own.
            pair = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
            state_dict.update({prefix + "_packed_params.weight": pair[0], prefix + "_packed_params.bias": pair[1]})
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, *rest)

    def _weight_bias(self) -> tuple[Answer, Tensor | None]:
        return self._packed_params._weight_bias()

    def weight(self) -> Answer:
        """Return the weight ``[out_features, in_features]``, quantised."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """Return the bias ``[out_features]``."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Answer, b: Tensor | None) -> None:
        """Take a weight ``[out_features, in_features]`` and a bias ``[out_features]``."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the layer for one in floating-point numbers that observed what it was given.

        Raises:
            AssertionError: the module is no such layer.
        """
        allowed = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, tuple) else (cls._FLOAT_MODULE,)
        activation = getattr(mod, "activation_post_process", None)
        if type(mod) is LinearBn1d:
            mod.weight, mod.bias = mod.fused_weight_and_bias()
        elif not hasattr(mod, "weight_fake_quant"):
            require_type(cls, mod, (*allowed, LinearReLU, TrainedLinear))
            mod = mod[0] if type(mod) is LinearReLU else mod
        observer = weight_observer(mod)
        if observer.dtype is not torch.qint8:
            raise AssertionError("Weight observer must have dtype torch.qint8")
        made: Answer = cls(mod.in_features, mod.out_features, dtype=torch.qint8)
        made.set_weight_bias(_quantize_weight(mod.weight.detach().float(), observer), mod.bias)
        made.scale, made.zero_point = scale_of(activation)
        return made

    @classmethod
    def from_reference(cls, ref_module: Answer, output_scale: float, output_zero_point: int) -> Answer:
        """Return the layer for one that computes in floating-point numbers what this one does in integers."""
        made: Answer = cls(ref_module.in_features, ref_module.out_features)
        made.set_weight_bias(ref_module.get_quantized_weight(), ref_module.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made
