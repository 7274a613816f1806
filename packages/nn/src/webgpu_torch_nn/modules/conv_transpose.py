"""Transposed convolutions: the gradients of convolutions with respect to their inputs, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core import Tensor

from webgpu_torch_nn.modules.conv import Sizes, _ConvNd


class _ConvTransposeNd(_ConvNd):
    """What all transposed convolutions hold: the arguments of :class:`Conv2d` and its kin, and ``output_padding``.

    Raises:
        ValueError: the padding mode is not "zeros", or an output size asked for can't come from the input's.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """Return what must be added on one side to reach the output size asked for."""
        if output_size is None:
            return self.output_padding
        batched = input.dim() == num_spatial_dims + 2
        wanted = list(output_size)
        if len(wanted) == num_spatial_dims + 1 + batched:
            wanted = wanted[-num_spatial_dims:]
        if len(wanted) != num_spatial_dims:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {num_spatial_dims} or "
                f"{num_spatial_dims + 1 + batched} elements (got {len(wanted)})"
            )
        spread = dilation or (1,) * num_spatial_dims
        sizes = input.shape[-num_spatial_dims:]
        least = [
            (size - 1) * step - 2 * pad + gap * (taps - 1) + 1
            for size, step, pad, gap, taps in zip(sizes, stride, padding, spread, kernel_size, strict=True)
        ]
        most = [low + step - 1 for low, step in zip(least, stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} "
                f"(for an input of {sizes})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


class _ConvTranspose(_ConvTransposeNd):
    """The transposed convolutions, for their ranks."""

    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = self._sizes
        super().__init__(
            in_channels, out_channels, sizes(kernel_size), sizes(stride), sizes(padding), sizes(dilation), True,
            sizes(output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._spatial, self.dilation
        )
        convolve = self._function("conv_transpose")
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    """Transposed one-dimensional convolution; the weight is [in_channels, out_channels / groups, length]."""


class ConvTranspose2d(_ConvTranspose):
    """Transposed two-dimensional convolution; the weight is [in_channels, out_channels / groups, height, width]."""


class ConvTranspose3d(_ConvTranspose):
    """Transposed three-dimensional convolution; the weight is [in_channels, out_channels / groups, depth, height, width]."""
