"""What PyTorch refuses of the operands and numbers of convolutions, in its words."""

from __future__ import annotations

import operator
from typing import Any

from ...dispatch.argument_types import is_whole
from ...tensors.tensor import Tensor
from ..common import refuse_types, type_title


def per_dimension(value: Any, count: int, name: str) -> tuple[int, ...]:
    """Return one number per spatial dimension, given one for all or one for each."""
    sizes = tuple(operator.index(each) for each in ((value,) * count if is_whole(value, False) else value))
    sizes = sizes * count if len(sizes) == 1 else sizes
    if len(sizes) != count:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {count} values to match the convolution dimensions, but got {name}={list(sizes)}"
        )
    return sizes


def require_rank(weight: Tensor, steps: tuple[int, ...]) -> None:
    """Refuse a weight of other dimensions than the convolution, as PyTorch does: by the strides that it would need.

    Raises:
        RuntimeError: a stride for each of the weight's spatial dimensions is not what there is.
    """
    if weight.ndim > 2:
        per_dimension(steps, weight.ndim - 2, "stride")


def require_same_rank(input: Tensor, weight: Tensor) -> None:
    """Raise a RuntimeError for an input and a weight of different numbers of dimensions."""
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight {list(weight.shape)}, but got "
            f"{input.ndim}-dimensional input of size {list(input.shape)} instead"
        )


def check_operands(
    input: Tensor, weight: Tensor, bias: Any, numbers: tuple[tuple[int, ...], ...], groups: int, spatial: int
) -> None:
    """Raise PyTorch's errors for numbers and shapes of a convolution of [n, c, sizes…] that do not fit."""
    stride, padding, dilation = numbers
    if weight.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    require_same_rank(input, weight)
    given = f"Given groups={groups}, "
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"{given}expected weight to be at least {groups} at dimension 0, but got weight of size {list(weight.shape)} instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"{given}expected weight to be divisible by {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead"
        )
    if input.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"{given}weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[1] * groups} channels, but got {input.shape[1]} channels instead"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {weight.shape[0]} elements, "
            f"but got bias of size {list(bias.shape)} instead"
        )
    require_kinds(input, weight, bias)
    kernel = "compute_columns3d" if spatial == 3 else "slow_conv2d_cpu"
    refuse_types(kernel if set(dilation) == {1} else "slow_conv_dilated<>", input, 0)
    require_taps(weight, dilation)


def require_taps(weight: Tensor, dilation: tuple[int, ...], transposed: bool = False) -> None:
    """Refuse a convolution without taps, or with dilations that leave no room between them, in the words of PyTorch's kernels.

    Raises:
        RuntimeError: a size or a dilation is zero, or a dilation is negative.
    """
    # One dimension is computed as two of them.
    taps, gaps = ((1,) * (2 - len(dilation)) + tuple(each) for each in (weight._layout.shape[2:], dilation))
    spread = not transposed and set(dilation) != {1}
    if transposed and len(taps) == 3:
        if min(gaps) <= 0:
            told = ", ".join(
                f"dilation_{side}: {gap}" for side, gap in zip(("depth", "height", "width"), gaps, strict=True)
            )
            raise RuntimeError(f"dilation should be greater than zero, but got {told}")
        if min(taps) <= 0:
            raise RuntimeError(
                "non-empty 5D (n_output_plane x n_input_plane x kernel_depth x kernel_height x kernel_width) tensor expected for "
                f"weight, but got: {list(weight.shape)}"
            )
    for name, word, numbers in (("kernel size", "kernel", taps), ("dilation", "dilation", gaps)):
        if min(numbers) > 0:
            continue
        if spread:
            told = f" {list(numbers)}"
        elif len(numbers) == 3:
            told = f": {' x '.join(map(str, numbers))} (TxHxW)"
        else:
            told = f" {word}_height: {numbers[0]}{',' * (word == 'dilation')} {word}_width: {numbers[1]}"
        raise RuntimeError(f"{name} should be greater than zero, but got{told}")


def require_kinds(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Refuse a convolution of different element types.

    Raises:
        RuntimeError: weight or bias are of another type than the input.
    """
    if bias is not None and bias.dtype is not input.dtype:
        raise RuntimeError(f"Input type ({input.dtype.word}) and bias type ({bias.dtype.word}) should be the same")
    if weight.dtype is not input.dtype:
        raise RuntimeError(f"expected scalar type {type_title(input)} but found {type_title(weight)}")
