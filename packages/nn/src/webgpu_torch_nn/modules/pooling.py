"""Pooling: maxima, means and power means of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core import Tensor

from webgpu_torch_nn.modules._ranked import _Ranked

Sizes = int | tuple[int, ...]
OutputSizes = int | None | tuple[int | None, ...]


class _PoolNd(_Ranked):
    """What sliding windows take; the stride is the kernel's size if None."""

    kernel_size: Any
    stride: Any
    padding: Any

    def __init__(self, kernel_size: Sizes, stride: Sizes | None, padding: Sizes) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPoolNd(_PoolNd):
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
        super().__init__(kernel_size, stride, padding)
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._function("max_pool")(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPoolNd):
    """Maxima of sliding windows over [N, C, length] or [C, length]."""


class MaxPool2d(_MaxPoolNd):
    """Maxima of sliding windows over [N, C, height, width] or [C, height, width]."""


class MaxPool3d(_MaxPoolNd):
    """Maxima of sliding windows over [N, C, depth, height, width] or without N."""


class _MaxUnpoolNd(_PoolNd):
    """What the partial inverses of maxima take: the pooling's own kernel size, stride and padding."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        strides = self._sizes(kernel_size if stride is None else stride)
        super().__init__(self._sizes(kernel_size), strides, self._sizes(padding))

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        unpool = self._function("max_unpool")
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Maxima at the positions they came from, zeros elsewhere; undoes :class:`MaxPool1d` in part."""


class MaxUnpool2d(_MaxUnpoolNd):
    """Maxima at the positions they came from, zeros elsewhere; undoes :class:`MaxPool2d` in part."""


class MaxUnpool3d(_MaxUnpoolNd):
    """Maxima at the positions they came from, zeros elsewhere; undoes :class:`MaxPool3d` in part."""


class _AvgPoolNd(_PoolNd):
    """What the means of sliding windows take."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._function("avg_pool")(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


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
        strides = self._sizes(kernel_size if stride is None else stride)
        super().__init__(self._sizes(kernel_size), strides, self._sizes(padding), ceil_mode, count_include_pad)
        # Only windows of more dimensions take one.
        del self.divisor_override

    def forward(self, input: Tensor) -> Tensor:
        pool = self._function("avg_pool")
        return pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_AvgPoolNd):
    """Means of sliding windows over [N, C, height, width] or [C, height, width].

    Args:
        kernel_size, stride, padding: an integer or a pair; the stride is the kernel's size if None.
        ceil_mode: whether windows that leave the input at the end count.
        count_include_pad: whether padding counts as zeros.
        divisor_override: divides the sums in place of the windows' size.
    """


class AvgPool3d(_AvgPoolNd):
    """Means of sliding windows over [N, C, depth, height, width] or without N; the arguments are :class:`AvgPool2d`'s."""


class _LPPoolNd(_Ranked):
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

    def forward(self, input: Tensor) -> Tensor:
        pool = self._function("lp_pool")
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Power means of sliding windows over [N, C, length]."""


class LPPool2d(_LPPoolNd):
    """Power means of sliding windows over [N, C, height, width]."""


class LPPool3d(_LPPoolNd):
    """Power means of sliding windows over [N, C, depth, height, width]."""


class _FractionalMaxPoolNd(_Ranked):
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
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size: tuple[int, ...] = self._sizes(kernel_size)
        self.return_indices = return_indices
        self.output_size: tuple[int, ...] | None = self._sizes(output_size)
        self.output_ratio: tuple[float, ...] | None = self._sizes(output_ratio)
        if any(size <= 0 for size in self.kernel_size):
            raise ValueError(f"kernel_size must be greater than zero for all dimensions, got {self.kernel_size}")
        self.register_buffer("_random_samples", _random_samples)
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {self.output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return self._function("fractional_max_pool")(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima of pseudorandom windows over [N, C, height, width] or [C, height, width]."""


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima of pseudorandom windows over [N, C, depth, height, width] or without N."""


class _AdaptiveMaxPoolNd(_Ranked):
    """What maxima of windows that fit an output size take.

    Args:
        output_size: an integer or one per dimension; None keeps a dimension.
        return_indices: whether to return the maxima's positions, too.
    """

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self._function("adaptive_max_pool")(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows over [N, C, length] as the output has elements."""


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows over [N, C, height, width] as the output has elements."""


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows over [N, C, depth, height, width] as the output has elements."""


class _AdaptiveAvgPoolNd(_Ranked):
    """What means of windows that fit an output size take.

    Args:
        output_size: an integer or one per dimension; None keeps a dimension.
    """

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self._function("adaptive_avg_pool")(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of as many windows over [N, C, length] as the output has elements."""


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of as many windows over [N, C, height, width] as the output has elements."""


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of as many windows over [N, C, depth, height, width] as the output has elements."""
