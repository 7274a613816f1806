"""Pooling: maxima, means and power means of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.modules.utils import _pair, _single, _triple

Sizes = int | tuple[int, ...]
OutputSizes = int | None | tuple[int | None, ...]


class _MaxPoolNd(Module):
    """What the maxima of sliding windows take.

    Args:
        kernel_size, stride, padding, dilation: an integer or one per dimension; the stride is the kernel's size if None.
        return_indices: whether to return the maxima's positions, too, as unpooling needs.
        ceil_mode: whether windows that leave the input at the end count.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Maxima of sliding windows over [N, C, length] or [C, length]."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, *self._arguments())


class MaxPool2d(_MaxPoolNd):
    """Maxima of sliding windows over [N, C, height, width] or [C, height, width]."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, *self._arguments())


class MaxPool3d(_MaxPoolNd):
    """Maxima of sliding windows over [N, C, depth, height, width] or without N."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, *self._arguments())


class _MaxUnpoolNd(Module):
    """What the partial inverses of maxima take: the pooling's own kernel size, stride and padding."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Maxima at the positions they came from, zeros elsewhere; undoes :class:`MaxPool1d` in part."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Maxima at the positions they came from, zeros elsewhere; undoes :class:`MaxPool2d` in part."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(kernel_size if stride is None else stride)
        self.padding = _pair(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Maxima at the positions they came from, zeros elsewhere; undoes :class:`MaxPool3d` in part."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = _triple(kernel_size)
        self.stride = _triple(kernel_size if stride is None else stride)
        self.padding = _triple(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    """What the means of sliding windows take."""

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Means of sliding windows over [N, C, length] or [C, length].

    Args:
        kernel_size, stride, padding: an integer; the stride is the kernel's size if None.
        ceil_mode: whether windows that leave the input at the end count.
        count_include_pad: whether padding counts as zeros.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_AvgPoolNd):
    """Means of sliding windows over [N, C, height, width] or [C, height, width].

    Args:
        kernel_size, stride, padding: an integer or a pair; the stride is the kernel's size if None.
        ceil_mode: whether windows that leave the input at the end count.
        count_include_pad: whether padding counts as zeros.
        divisor_override: divides the sums in place of the windows' size.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _arguments(self) -> tuple[Any, ...]:
        return (
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(AvgPool2d):
    """Means of sliding windows over [N, C, depth, height, width] or without N; the arguments are :class:`AvgPool2d`'s."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._arguments())


class _LPPoolNd(Module):
    """``(sum of x ** norm_type) ** (1 / norm_type)`` of sliding windows.

    Args:
        norm_type: the exponent; 1 gives sums, infinity maxima.
        kernel_size, stride: an integer or one per dimension; the stride is the kernel's size if None.
        ceil_mode: whether windows that leave the input at the end count.
    """

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def _arguments(self) -> tuple[Any, ...]:
        return float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Power means of sliding windows over [N, C, length]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, *self._arguments())


class LPPool2d(_LPPoolNd):
    """Power means of sliding windows over [N, C, height, width]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, *self._arguments())


class LPPool3d(_LPPoolNd):
    """Power means of sliding windows over [N, C, depth, height, width]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, *self._arguments())


class _FractionalMaxPoolNd(Module):
    """Maxima of windows at pseudorandom places (Graham, "Fractional max-pooling", 2014).

    Args:
        kernel_size: an integer or one per dimension.
        output_size, output_ratio: exactly one of them says how large the output is.
        return_indices: whether to return the maxima's positions, too.

    Raises:
        ValueError: both or neither of size and ratio are given, or a ratio is not between 0 and 1.
    """

    def __init__(
        self,
        kernel_size: tuple[int, ...],
        output_size: tuple[int, ...] | None,
        output_ratio: tuple[float, ...] | None,
        return_indices: bool,
        _random_samples: Tensor | None,
    ) -> None:
        super().__init__()
        if any(size <= 0 for size in kernel_size):
            raise ValueError(f"kernel_size must be greater than zero for all dimensions, got {kernel_size}")
        self.kernel_size = kernel_size
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = output_size
        self.output_ratio = output_ratio
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if output_ratio is not None and not all(0 < ratio < 1 for ratio in output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _arguments(self) -> dict[str, Any]:
        return {
            "kernel_size": self.kernel_size,
            "output_size": self.output_size,
            "output_ratio": self.output_ratio,
            "return_indices": self.return_indices,
            "_random_samples": self._random_samples,
        }


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima of pseudorandom windows over [N, C, height, width] or [C, height, width]."""

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        size = None if output_size is None else _pair(output_size)
        ratio = None if output_ratio is None else _pair(output_ratio)
        super().__init__(_pair(kernel_size), size, ratio, return_indices, _random_samples)

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(input, **self._arguments())


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima of pseudorandom windows over [N, C, depth, height, width] or without N."""

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        size = None if output_size is None else _triple(output_size)
        ratio = None if output_ratio is None else _triple(output_ratio)
        super().__init__(_triple(kernel_size), size, ratio, return_indices, _random_samples)

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(input, **self._arguments())


class _AdaptiveMaxPoolNd(Module):
    """What maxima of windows that fit an output size take.

    Args:
        output_size: an integer or one per dimension; None keeps a dimension.
        return_indices: whether to return the maxima's positions, too.
    """

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows over [N, C, length] as the output has elements."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)  # type: ignore[arg-type]


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows over [N, C, height, width] as the output has elements."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)  # type: ignore[arg-type]


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows over [N, C, depth, height, width] as the output has elements."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)  # type: ignore[arg-type]


class _AdaptiveAvgPoolNd(Module):
    """What means of windows that fit an output size take.

    Args:
        output_size: an integer or one per dimension; None keeps a dimension.
    """

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of as many windows over [N, C, length] as the output has elements."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)  # type: ignore[arg-type]


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of as many windows over [N, C, height, width] as the output has elements."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)  # type: ignore[arg-type]


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of as many windows over [N, C, depth, height, width] as the output has elements."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)  # type: ignore[arg-type]
