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


def standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Return numbers from the normal distribution of mean 0 and deviation 1."""
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device), torch.ones(shape, dtype=dtype, device=device))
