"""What distributions share: parameters of one shape, and probabilities beside their logarithms."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional


class lazy_property(cached_property[Any]):
    """A property that is computed when it is first asked for, with gradients even where they are not recorded."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        with torch.enable_grad():
            return super().__get__(instance, owner)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return tensors and numbers as tensors of one shape; numbers take the tensors' type and device.

    Raises:
        ValueError: something is neither a tensor nor a number.
    """
    if not all(isinstance(each, Tensor | int | float) for each in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((each for each in values if isinstance(each, Tensor)), None)
    options: dict[str, Any] = {"dtype": torch.get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    made = [each if isinstance(each, Tensor) else torch.tensor(each, **options) for each in values]
    return tuple(torch.broadcast_tensors(*made))


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probabilities that are neither 0 nor 1, so that their logarithms are finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the logarithms of probabilities; of the odds if there are two outcomes."""
    clamped = clamp_probs(probs)
    return torch.log(clamped) - torch.log1p(-clamped) if is_binary else torch.log(clamped)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities of logits; of the first of two outcomes if there are two."""
    return torch.sigmoid(logits) if is_binary else functional.softmax(logits, dim=-1)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sums over a number of the last dimensions; the tensor itself for none."""
    return value if dim == 0 else value.reshape((*value.shape[: value.ndim - dim], -1)).sum(-1)


def standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Return numbers from the normal distribution of mean 0 and deviation 1."""
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device), torch.ones(shape, dtype=dtype, device=device))


_standard_normal = standard_normal


def lower_places(size: int, offset: int, device: Any) -> Tensor:
    """Return the positions, in a flattened square, of its lower triangle, row by row."""
    rows, columns = torch.tril_indices(size, size, offset=offset, device=device).unbind(0)
    return rows * size + columns


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the numbers of squares' lower triangles, row by row, up to a diagonal.

    Raises:
        ValueError: there is no such diagonal.
    """
    size = mat.shape[-1]
    if diag < -size or diag >= size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    return mat.flatten(-2).index_select(-1, lower_places(size, diag, mat.device))


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return squares whose lower triangles, up to a diagonal, have given numbers, row by row.

    Raises:
        ValueError: no square has so many.
    """
    count = vec.shape[-1]
    # A diagonal above the main one cuts a triangle off the square, one below it leaves less than half.
    exact = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    size = round(exact)
    if size - exact > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a square D x D matrix."
        )
    places = lower_places(size, diag, vec.device).expand(vec.shape)
    flat = torch.zeros((*vec.shape[:-1], size * size), dtype=vec.dtype, device=vec.device)
    return flat.scatter(-1, places, vec).unflatten(-1, (size, size))
