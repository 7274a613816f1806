"""Weights as operations take them: quantised, with a bias that is not, and for convolutions how they slide.

PyTorch packs them for its kernels; here they stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor

from .schemes import PerTensor
from .tensor import QuantizedTensor


class LinearPackedParams:
    """A weight ``[out, in]`` and a bias ``[out]``.

    Args:
        weight: of ``torch.qint8``.
        bias: float32, or None.
    """

    def __init__(self, weight: Answer, bias: Tensor | None = None) -> None:
        if not isinstance(weight, QuantizedTensor) or weight.dtype is not torch.qint8:
            raise RuntimeError("the weight has to be a quantized tensor of torch.qint8")
        self.weight, self.bias = weight, bias

    def unpack(self) -> tuple[QuantizedTensor, Tensor | None]:
        """Return the weight and the bias."""
        return self.weight, self.bias

    def __getstate__(self) -> tuple[Answer, ...]:
        return self.unpack()

    def __setstate__(self, state: tuple[Answer, ...]) -> None:
        self.weight, self.bias = state


class ConvPackedParams(LinearPackedParams):
    """A weight ``[out, in / groups, ...]``, transposed ``[in, out / groups, ...]``, a bias ``[out]`` and how they slide."""

    def __init__(
        self, weight: Answer, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
        groups: int = 1, output_padding: Sequence[int] = (), transposed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(weight, bias)
        self._stride, self._padding, self._dilation = list(stride), list(padding), list(dilation)
        self._groups, self._output_padding, self._transposed = groups, list(output_padding), transposed

    def stride(self) -> list[int]:
        """Return the steps of the window."""
        return self._stride

    def padding(self) -> list[int]:
        """Return how many zeros are put at either end."""
        return self._padding

    def dilation(self) -> list[int]:
        """Return the distances between a window's elements."""
        return self._dilation

    def output_padding(self) -> list[int]:
        """Return what a transposed convolution adds to one end of its result."""
        return self._output_padding

    def groups(self) -> int:
        """Return how many parts the channels are in that do not meet."""
        return self._groups

    def transpose(self) -> bool:
        """Return whether the convolution is transposed."""
        return self._transposed

    def __getstate__(self) -> tuple[Answer, ...]:
        slides = (self._stride, self._padding, self._dilation, self._groups, self._output_padding, self._transposed)
        return (self.weight, self.bias, slides)

    def __setstate__(self, state: tuple[Answer, ...]) -> None:
        self.weight, self.bias, slides = state
        (
            self._stride, self._padding, self._dilation, self._groups, self._output_padding, self._transposed,
        ) = slides  # fmt: skip


def weight_scales(weight: QuantizedTensor, axis: int = 0) -> tuple[Tensor, Tensor]:
    """Return a weight's scales as float32 and its zero points as int32: without dimensions, or one for each output.

    Raises:
        RuntimeError: they are of another dimension.
    """
    scheme = weight._scheme
    if isinstance(scheme, PerTensor):
        return scheme.standing(weight._held)
    if scheme.axis != axis:
        raise RuntimeError(f"a weight's scales belong to dimension {axis}, the outputs, not to {scheme.axis}")
    device = weight.device
    return scheme.scales.to(torch.float32).to(device), scheme.zero_points.to(torch.int32).to(device)
