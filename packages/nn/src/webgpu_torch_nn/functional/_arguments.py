"""What several families share: sizes per dimension, unbatched inputs, reductions of losses, results written in place."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.argument_types import is_whole
from webgpu_torch_core.ir.layouts import existing_dimension
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.common import dtype_title
from webgpu_torch_core.operations.in_place.writing import replaced, snapshot

Sizes = int | Sequence[int]
Function = TypeVar("Function", bound=Callable[..., Any])
PLACES = {1: "length", 2: "height, width", 3: "depth, height, width"}


def per_rank(make: Callable[[int], Function]) -> tuple[Function, Function, Function]:
    """Return a function for one, two and three spatial dimensions, made by ``make`` for a number of them.

    The N of the function's name becomes the number, "{places}" in its documentation the dimensions' names.
    """

    def named(spatial: int) -> Function:
        function = make(spatial)
        function.__name__ = function.__qualname__ = function.__name__.replace("N", str(spatial))
        function.__doc__ = str(function.__doc__).replace("{places}", PLACES[spatial]).replace("Nd`", f"{spatial}d`")
        return function

    return named(1), named(2), named(3)


_COUNTS = {2: "two", 3: "three"}


def spread(value: Sizes, count: int, function: str, name: str) -> tuple[int, ...]:
    """Return one size per dimension, given one for all or one for each.

    Raises:
        RuntimeError: neither one nor ``count`` sizes.
    """
    if is_whole(value):
        return (operator.index(value),) * count
    sizes = tuple(operator.index(each) for each in value)  # type: ignore[union-attr]
    if len(sizes) == 1:
        return sizes * count
    if len(sizes) != count:
        if count == 1:
            if function != "max_pool1d":
                # A pool of one dimension with positions is one of two.
                called = function.replace("2d", "1d")
                raise RuntimeError(f"{called}() argument '{name}' should contain one int (got {len(sizes)})")
            kinds = {"stride": "None, an int, list of ints,", "padding": "an int, list of ints,"}
            told = f"{name} must be {kinds.get(name, 'an int, list of ints')} or tuple of ints of size 1"
            raise RuntimeError(f"{function}() {told} but got size {len(sizes)}")
        # As PyTorch words it for each of them.
        how = "must be" if function == "avg_pool3d" else "must either be"
        how = "must be either" if name == "dilation" else how
        omitted = "omitted, " if name == "stride" else ""
        raise RuntimeError(f"{function}: {name} {how} {omitted}a single int, or a tuple of {_COUNTS[count]} ints")
    return sizes


def batched(input: Tensor, spatial: int, function: str) -> tuple[Tensor, bool]:
    """Return the input with a batch dimension, and whether it came without.

    Raises:
        RuntimeError: not [c, sizes…] or [n, c, sizes…] with ``spatial`` sizes.
    """
    if input.ndim == spatial + 1:
        return input.unsqueeze(0), True
    if input.ndim != spatial + 2:
        ranks = f"{spatial + 1}D or {spatial + 2}D (batch mode) tensor"
        if function in ("avg_pool3d", "max_pool2d", "max_pool3d"):
            raise RuntimeError(f"non-empty {ranks} expected for input")
        if function == "max_pool1d":
            raise RuntimeError(
                f"{function}: Expected {ranks} with optional 0 dim batch size for input, but got:{list(input.shape)}"
            )
        if function in ("avg_pool1d", "adaptive_avg_pool1d", "adaptive_max_pool1d"):
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {function})"
            )
        if function == "avg_pool2d":
            input.size(-3)
            raise RuntimeError(
                f"Expected {ranks} with optional 0 dim batch size for input, but got:{list(input.shape)}"
            )
        if function.startswith("adaptive_"):
            colon = ":" if "max" in function else ""
            raise RuntimeError(
                f"{function}(): Expected {spatial + 1}D or {spatial + 2}D tensor, but got{colon} {list(input.shape)}"
            )
        raise RuntimeError(f"{function}: Expected {ranks} for input, but got: {list(input.shape)}")
    return input, False


def require_kind(input: Tensor, accepted: bool, kernel: str) -> None:
    """Raise a NotImplementedError that names PyTorch's kernel, unless an input's elements are floats or of another accepted kind."""
    if input.numel() and not (input.dtype.is_floating_point or accepted):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_title(input.dtype)}'")


def before(input: Tensor, inplace: bool) -> Tensor:
    """Return what a result is computed from: where it is to be stored in the input, the input as it is now.

    What backward needs of it is then not reached by the write that follows.
    """
    return snapshot(input) if inplace and torch.is_grad_enabled() and input.requires_grad else input


def written(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """Return the result, stored in the input where asked."""
    return replaced(input, result) if inplace else result


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that PyTorch's two older flags mean where they are given."""
    if size_average is None and reduce is None:
        return reduction
    average = True if size_average is None else size_average
    reducing = True if reduce is None else reduce
    found = "none" if not reducing else "mean" if average else "sum"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.")
    return found


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """Return a loss reduced by ``none``, ``mean`` or ``sum``.

    Raises:
        ValueError: another reduction.
    """
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
    if reduction in ("mean", "elementwise_mean"):
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def require_reduction(reduction: str) -> None:
    """Raise for what is no reduction: a ValueError; a TypeError for what is no text, which PyTorch's message cannot be made of."""
    if not isinstance(reduction, str):
        raise TypeError(f"argument 'reduction' must be str, not {type(reduction).__name__}")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def wide(input: Tensor) -> Tensor:
    """Return the input in at least float32, for what must round once."""
    return input.to(torch.float32) if input.dtype in (torch.float16, torch.bfloat16) else input


def narrowed(result: Tensor, kind: Any) -> Tensor:
    """Return what was computed widely in the 16-bit type of its operands; where theirs was another, as it is."""
    return result.to(kind) if kind in (torch.float16, torch.bfloat16) else result


def check_places(input: Tensor, grid: Tensor, dims: tuple[int, ...]) -> None:
    """Raise where a grid does not fit an input, in PyTorch's order; ``dims``: how many dimensions the two may have.

    Raises:
        RuntimeError: other numbers of dimensions or examples, coordinates of another number, or an input without places.
    """
    if existing_dimension(0, input.ndim) or input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)} with dimension {2 + list(input.shape[2:]).index(0)} being empty"
        )
    if input.ndim not in dims or input.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {' or '.join(f'{each}D' for each in dims)} input and grid with same number of dimensions, but got "
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
