"""Functions of torch.nn.functional and torch written with other operations that fit no other family."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ...dispatch.autocast import with_autocast
from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...ir.host_bytes import check_number
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import ordered_as, refuse_types, with_ordered_gradient
from ..elementwise.overloads import clamp
from ..in_place.writing import make_in_place, replaced
from ..movement.joining import padded, place_inside
from ..outputs import into
from ..reduction.moments import vector_norm
from ..spatial.resampling import Table, resampled

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions, Number


#: the ways to pad with what a tensor holds
_MODES = ("reflect", "replicate", "circular")


@operation("composite", namespace="functional", method=False)
@remembered
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added around (or removed from) the last dimensions: pairs (before, after), last dimension first.

    Raises:
        RuntimeError: an odd number of amounts, or more pairs than dimensions.
    """
    amounts = [operator.index(each) for each in pad]
    if len(amounts) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(amounts) // 2 > input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(amounts)} and input of dimension {input.ndim}"
        )
    if mode != "constant":
        if value and mode in _MODES:
            raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
        if input.numel() and mode in _REPEATING:
            refuse_types(f"{_REPEATING[mode]}_pad{len(amounts) // 2}d", input, 0)
        padded_around = _casting_pad(mode, len(amounts) // 2)(input, amounts, mode)
        return retitled(padded_around, _PADDING_NODES.get(mode, "").format(len(amounts) // 2))
    return _pad_by_number(input, amounts, 0 if value is None else value) if amounts else input.clone()


#: what the nodes of pads that repeat elements are called
_PADDING_NODES = {
    "reflect": "ReflectionPad{}DBackward0", "replicate": "ReplicationPad{}DBackward0", "circular": "torch::autograd::CopySlices",
}  # fmt: skip


#: what PyTorch's kernels of them are called
_REPEATING = {"reflect": "reflection", "replicate": "replication"}


@lru_cache(maxsize=16)
def _casting_pad(mode: str, pairs: int) -> Callable[[Tensor, list[int], str], Tensor]:
    """Return :func:`_pad_by_index` with autocast's rule for what PyTorch calls it."""
    called = _REPEATING.get(mode)
    return with_autocast(f"{called}_pad{pairs}d", _pad_by_index) if called else _pad_by_index


def _pad_by_number(input: Tensor, amounts: Sequence[int], value: Tensor | complex = 0) -> Tensor:
    if value:
        number = value.item() if isinstance(value, Tensor) else value
        # As PyTorch takes it: a double.
        value = number if isinstance(number, complex) else float(number)
        check_number(value, input.dtype)
    before, shape = [0] * input.ndim, list(input._layout.shape)
    for pair in range(len(amounts) // 2):
        dim = input.ndim - 1 - pair
        before[dim] = amounts[2 * pair]
        shape[dim] += amounts[2 * pair] + amounts[2 * pair + 1]
        if input.shape[dim] + sum(min(amount, 0) for amount in amounts[2 * pair : 2 * pair + 2]) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    if max(amounts) <= 0:
        return padded(input, tuple(before), tuple(shape))
    return ordered_as(place_inside(input, tuple(before), tuple(shape), value, ordered=True), input)


@lru_cache(maxsize=256)
def _padding_table(size: int, before: int, after: int, mode: str) -> Table:
    """Return which position of a dimension each padded position repeats."""
    rows: list[list[tuple[int, float]]] = []
    for place in range(-before, size + after):
        if mode == "replicate":
            place = min(max(place, 0), size - 1)
        elif mode == "circular":
            place %= size
        else:
            place = (size - 1) - abs(abs(place) - (size - 1))
        rows.append([(place, 1.0)])
    return Table(size, rows)


def _check_padding(input: Tensor, dim: int, before: int, after: int, mode: str) -> None:
    size = input.shape[dim]
    if mode == "reflect" and (before >= size or after >= size):
        raise RuntimeError(
            f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {dim} of input {list(input.shape)}"
        )
    if mode == "circular" and (before > size or after > size):
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if size == 0:
        raise RuntimeError(f"Expected input to have a non-zero size for dimension {dim}, got {list(input.shape)}")
    if size + before + after <= 0:
        raise RuntimeError(f"input (size {size}) is too small for padding ({before}, {after}) at dimension {dim}")


def _pad_by_index(input: Tensor, amounts: list[int], mode: str) -> Tensor:
    """Return the input padded by what it holds: one kernel reads every element's source position."""
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    pairs = len(amounts) // 2
    if pairs > 3 or input.ndim not in (pairs + 1, pairs + 2):
        raise NotImplementedError(
            f"Padding size {len(amounts)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if mode != "circular" and 0 in input.shape[input.ndim - pairs - 1 :]:
        raise RuntimeError(
            f"Expected {pairs + 1}D or {pairs + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            f"for input, but got: {list(input.shape)}"
        )
    tables: list[Table | None] = []
    for pair in range(pairs):
        dim = input.ndim - 1 - pair
        before, after = amounts[2 * pair], amounts[2 * pair + 1]
        _check_padding(input, dim, before, after, mode)
        if mode == "circular" and min(before, after) < 0:
            # What is cut off is not there to wrap around.
            input = input.narrow(dim, max(-before, 0), input.shape[dim] - max(-before, 0) - max(-after, 0))
            before, after = max(before, 0), max(after, 0)
        tables.insert(0, _padding_table(input.shape[dim], before, after, mode))
    # PyTorch's wrapped copies are row-major.
    order = (mode != "circular",) * 2
    return resampled(with_ordered_gradient(input) if order[0] else input, tables, ordered=order)


@operation("composite", namespace="functional", method=False)
def elu(input: Tensor, alpha: Number = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where positive, else ``alpha * (exp(input) - 1)``."""
    refuse_types("elu_cpu", input, 0, 1)
    result = e.elu_(input, alpha=float(alpha))
    return replaced(input, result) if inplace else result


@operation("composite", namespace="functional", method=False)
def softplus(input: Tensor, beta: Number = 1, threshold: Number = 20, *, out: Tensor | None = None) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, linear above the threshold."""
    return into(e.softplus_(input, beta=float(beta), threshold=float(threshold)), out, True, (input,))


@operation("composite", namespace="functional", method=False)
@remembered
def normalize(
    input: Tensor, p: Number | None = 2.0, dim: Dimensions = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """The input divided by its norm along a dimension, the 2-norm if no other is given."""
    p = 2.0 if p is None else p
    return into(
        input / clamp(vector_norm(input, p, dim, True), min=eps).expand(input._layout.shape), out, read=(input,)
    )


relu_ = make_in_place(e.relu, "relu_")
