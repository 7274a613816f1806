"""Transposed convolution: the input gradient of a convolution as an operation of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.registry import operation
from ...ir.dtypes import float64
from ...tensors.tensor import Tensor
from ..common import image_order, refuse_types, with_gradient_in, with_ordered_gradient
from .convolution import Window, finished, input_gradient, ordering
from .convolution_checks import per_dimension, require_kinds, require_rank, require_same_rank, require_taps


def _transposed_window(
    input: Tensor, weight: Tensor, numbers: tuple[Any, Any, Any, Any], groups: int, spatial: int
) -> tuple[Window, tuple[int, ...]]:
    """Return the window of the convolution whose input gradient this is, and that input's sizes."""
    stride, padding, output_padding, dilation = numbers
    steps, pads = per_dimension(stride, spatial, "stride"), per_dimension(padding, spatial, "padding")
    extra, spreads = (
        per_dimension(output_padding, spatial, "output_padding"),
        per_dimension(dilation, spatial, "dilation"),
    )
    for axis in range(spatial):
        if extra[axis] >= max(steps[axis], spreads[axis]):
            named = {"output_padding": extra, "stride": steps, "dilation": spreads}
            last = ("depth", "height", "width")[3 - max(spatial, 2) :]
            told = [
                f"{name}_{side}: {value}"
                for name, values in named.items()
                for side, value in zip(last, (1,) * (2 - spatial) + tuple(values), strict=True)
            ]
            raise RuntimeError(
                f"output padding must be smaller than either stride or dilation, but got {' '.join(told)}"
            )
    taps = tuple(weight._layout.shape[2:])
    sizes = tuple(
        (input.shape[2 + axis] - 1) * steps[axis] - 2 * pads[axis] + spreads[axis] * (taps[axis] - 1) + extra[axis] + 1
        for axis in range(spatial)
    )
    if any(size <= 0 for size in sizes):
        raise RuntimeError(
            f"Given input size per channel: {list(input.shape[2:])}. Calculated output size per channel: {list(sizes)}. "
            "Output size is too small"
        )
    return Window(steps, pads, spreads, groups, tuple(input._layout.shape[2:])), sizes


def _transposed(
    input: Tensor, weight: Tensor, bias: Any, numbers: tuple[Any, Any, Any, Any], groups: int, spatial: int
) -> Tensor:
    name = f"conv_transpose{spatial}d"
    if input.ndim == spatial + 1:
        return _transposed(input.unsqueeze(0), weight, bias, numbers, groups, spatial).squeeze(0)
    require_rank(weight, per_dimension(numbers[0], spatial, "stride"))
    if input.ndim != spatial + 2:
        raise RuntimeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )
    require_same_rank(input, weight)
    if input.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[0]} channels, but got {input.shape[1]} channels instead"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[1] * groups,):
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected bias to be 1-dimensional with "
            f"{weight.shape[1] * groups} elements, but got bias of size {list(bias.shape)} instead"
        )
    # The weight is looked at first here, as in PyTorch.
    require_kinds(input, weight, None)
    if spatial == 3 or input.dtype is not float64 or (bias is not None and bias.dtype.is_complex):
        require_kinds(input, weight, bias)
    # Of short integers, which PyTorch refuses, too, quantised convolutions are made.
    refuse_types(f"slow_conv_transpose{3 if spatial == 3 else 2}d_out_cpu", input, 0)
    require_taps(weight, per_dimension(numbers[3], spatial, "dilation"), transposed=True)
    window, sizes = _transposed_window(input, weight, numbers, groups, spatial)
    shape = (input.shape[0], weight.shape[1] * groups, *sizes)
    told = ordering(input, weight)
    one = with_ordered_gradient(input, *told, rows=True)
    other = with_gradient_in(weight, image_order(*told, rows=True))
    return finished(input_gradient(one, other, window, shape, wide=bias is not None), input, weight, bias)


@operation("contraction", method=False)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transpose of :func:`conv1d`: [n, c, length] with weight [c, o / groups, taps]."""
    return _transposed(input, weight, bias, (stride, padding, output_padding, dilation), groups, 1)


@operation("contraction", method=False)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transpose of :func:`conv2d`: [n, c, height, width] with weight [c, o / groups, taps, taps]."""
    return _transposed(input, weight, bias, (stride, padding, output_padding, dilation), groups, 2)


@operation("contraction", method=False)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transpose of :func:`conv3d`: [n, c, depth, height, width] with weight [c, o / groups, taps, taps, taps]."""
    return _transposed(input, weight, bias, (stride, padding, output_padding, dilation), groups, 3)
