"""Functions of torch.nn.functional and torch written with other operations that fit no other family."""

from __future__ import annotations

from ..tensor import Tensor
from . import elementwise as e
from .arithmetic import clamp
from .inplace import make_in_place
from .joining import place_inside
from .registry import operation


@operation("composite", namespace="functional", method=False)
def pad(input, pad, mode="constant", value=None):
    """Elements added around (or removed from) the last dimensions: pairs (before, after), last dimension first.

    Raises:
        RuntimeError: an odd number of amounts, or more pairs than dimensions.
    """
    amounts = [int(each) for each in pad]
    if len(amounts) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(amounts)}")
    if len(amounts) // 2 > input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(amounts)} and input of dimension {input.ndim}"
        )
    if mode != "constant":
        return _pad_by_index(input, amounts, mode)
    before, shape = [0] * input.ndim, list(input._layout.shape)
    for pair in range(len(amounts) // 2):
        dim = input.ndim - 1 - pair
        before[dim] = amounts[2 * pair]
        shape[dim] += amounts[2 * pair] + amounts[2 * pair + 1]
        if shape[dim] < 0:
            raise RuntimeError(
                f"The input size {input.shape[dim]}, plus negative padding, resulted in a negative output size {shape[dim]}"
            )
    return place_inside(input, tuple(before), tuple(shape), 0 if value is None else value)


def _pad_by_index(input: Tensor, amounts: list[int], mode: str) -> Tensor:
    from .creation import arange
    from .gathering import index_select

    result = input
    for pair in range(len(amounts) // 2):
        dim = input.ndim - 1 - pair
        size = input.shape[dim]
        before, after = amounts[2 * pair], amounts[2 * pair + 1]
        positions = arange(-before, size + after, device=input.device)
        if mode == "replicate":
            positions = clamp(positions, 0, size - 1)
        elif mode == "circular":
            positions = positions.remainder(size)
        elif mode == "reflect":
            if before >= size or after >= size:
                raise RuntimeError(
                    f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                    f"({before}, {after}) at dimension {dim} of input {list(input.shape)}"
                )
            positions = (size - 1) - (positions.abs() - (size - 1)).abs()
        else:
            raise NotImplementedError(f"Unrecognised padding mode {mode}")
        result = index_select(result, dim, positions)
    return result


@operation("composite", namespace="functional", method=False)
def elu(input, alpha=1.0, inplace=False):
    """``input`` where positive, else ``alpha * (exp(input) - 1)``."""
    result = e.elu_(input, alpha=float(alpha))
    return input.copy_(result) if inplace else result


@operation("composite", namespace="functional", method=False)
def softplus(input, beta=1, threshold=20):
    """``log(1 + exp(beta * input)) / beta``, linear above the threshold."""
    return e.softplus_(input, beta=float(beta), threshold=float(threshold))


@operation("composite", namespace="functional", method=False)
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """The input divided by its norm along a dimension."""
    from .reduction import vector_norm

    result = input / clamp(vector_norm(input, p, dim, True), min=eps).expand(input._layout.shape)
    return result if out is None else out.copy_(result)


relu_ = make_in_place(e.relu, "relu_")
