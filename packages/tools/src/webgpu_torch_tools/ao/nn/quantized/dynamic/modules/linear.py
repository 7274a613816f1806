"""Linear layers with weights in integers, for numbers that are quantised when they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.linear import NonDynamicallyQuantizableLinear

from ....intrinsic.modules.fused import LinearReLU
from ....qat.dynamic.modules.linear import Linear as TrainedLinear
from ...modules import linear as static
from ...modules.utils import _quantize_weight, require_type, weight_observer


class Linear(static.Linear):
    """``input @ weight.T + bias`` of numbers ``[..., in_features]``, whose least and greatest one make a scale for them.

    Args:
        in_features, out_features: the sizes.
        bias_: whether there is a bias.
        dtype: of the weight: ``torch.qint8``, or ``torch.float16`` for a weight that is rounded to it.
    """

    _version = 4
    _FLOAT_MODULE: ClassVar[Answer] = (nn.Linear, NonDynamicallyQuantizableLinear)
    _relu: ClassVar[bool] = False

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: torch.dtype = torch.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version: int | None = self._version

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result as float32: ``[..., out_features]``.

        Raises:
            RuntimeError: a weight of another type.
        """
        packed = self._packed_params
        if packed.dtype is torch.float16:
            result = F.linear(x, *packed._weight_bias())
            return result.relu() if self._relu else result
        if packed.dtype is not torch.qint8:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        compute: Callable[..., Tensor] = (
            ops.quantized.linear_relu_dynamic if self._relu else ops.quantized.linear_dynamic
        )
        # Files of older versions were made for integers of the whole range.
        reduced = self.version is not None and self.version >= 4
        return compute(x, packed._packed_params, reduce_range=reduced)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        return text + (f", qscheme={self.weight().qscheme()}" if self._packed_params.dtype is torch.qint8 else "")

    def _load_from_state_dict(
        self, state_dict: dict[str, Answer], prefix: str, local_metadata: dict[str, Answer], *rest: Answer
    ) -> None:
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the layer for one in floating-point numbers.

        Raises:
            AssertionError: the module is no such layer, or has no configuration.
            RuntimeError: the weight is to be of another type.
        """
        allowed = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, tuple) else (cls._FLOAT_MODULE,)
        require_type(cls, mod, (*allowed, LinearReLU, TrainedLinear))
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        inner = mod[0] if type(mod) is LinearReLU else mod
        if getattr(inner, "qconfig", None) is None:
            inner.qconfig = mod.qconfig
        observer = weight_observer(inner)
        if observer.dtype not in (torch.qint8, torch.float16):
            raise RuntimeError("Unsupported dtype specified for dynamic quantized Linear!")
        weight = inner.weight.detach().float()
        made: Answer = cls(inner.in_features, inner.out_features, dtype=observer.dtype)
        quantized = _quantize_weight(weight, observer) if observer.dtype is torch.qint8 else weight
        made.set_weight_bias(quantized, inner.bias)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear: Answer) -> Answer:  # type: ignore[override]
        """Return the layer for one that computes in floating-point numbers what this one does in integers."""
        made: Answer = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made
