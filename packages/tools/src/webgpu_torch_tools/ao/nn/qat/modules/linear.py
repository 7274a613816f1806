"""Linear layers whose weights are rounded as integers would be, for training with it."""

from __future__ import annotations

from typing import ClassVar

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.linear import NonDynamicallyQuantizableLinear


class Linear(nn.Linear):
    """:class:`torch.nn.Linear`, ``[..., in_features]``, with a weight that is rounded as integers would be.

    Args:
        in_features, out_features, bias, device, dtype: as the layer of ``torch.nn`` has them.
        qconfig: the configuration.

    Raises:
        AssertionError: there is none.
    """

    _FLOAT_MODULE: ClassVar[Answer] = (nn.Linear, NonDynamicallyQuantizableLinear)

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Answer = None,
        device: Answer = None,
        dtype: Answer = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's result with the rounded weight: ``[..., out_features]``."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the layer for one of ``torch.nn``, which shares its weight and its configuration.

        Raises:
            AssertionError: the module is no such layer, or has no configuration.
        """
        allowed = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, tuple) else (cls._FLOAT_MODULE,)
        if type(mod) not in allowed:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {[each.__name__ for each in allowed]}")
        qconfig = getattr(mod, "qconfig", None)
        if not qconfig:
            raise AssertionError("Input float module must have a valid qconfig")
        mod = mod[0] if isinstance(mod, nn.Sequential) else mod
        made: Answer = cls(mod.in_features, mod.out_features, bias=mod.bias is not None, qconfig=qconfig)
        made.weight, made.bias = mod.weight, mod.bias
        return made

    def to_float(self) -> Answer:
        """Return the layer of ``torch.nn`` with this weight."""
        made = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        return made
