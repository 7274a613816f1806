"""Limiting gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn
from webgpu_torch_core.replay.recipes import remembered


def _part(tensor: Tensor, norm_type: float, device: torch.device) -> Tensor:
    """The vector norm of all elements on a device, of order 2 its square: roots of parts would be squared again."""
    tensor = tensor.abs() if tensor.is_complex() else tensor
    found = (tensor * tensor).sum() if norm_type == 2.0 else _norm(tensor, norm_type)
    return found if found.device == device else found.to(device)


def _norm(tensor: Tensor, norm_type: float) -> Tensor:
    if norm_type == float("inf"):
        return tensor.abs().max()
    return tensor.norm(norm_type)


@remembered
def _total(tensors: list[Tensor], norm_type: float) -> Tensor:
    device = tensors[0].device
    parts = torch.stack([_part(tensor, norm_type, device) for tensor in tensors])
    return parts.sum().sqrt() if norm_type == 2.0 else _norm(parts, norm_type)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of all tensors together, on the device of the first.

    Raises:
        RuntimeError: the norm is NaN or infinite and ``error_if_nonfinite`` is set.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return torch.tensor(0.0)
    total = _total(tensors, norm_type)
    if error_if_nonfinite and torch.logical_or(total.isnan(), total.isinf()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply the gradients by ``min(1, max_norm / (total_norm + 1e-6))``; nothing is read back from the device."""
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    factor = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    for parameter in parameters:
        grad = parameter.grad
        if grad is not None:
            grad.mul_(factor if factor.device == grad.device else factor.to(grad.device))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of ``parameters`` so that their norm, taken together, is at most ``max_norm``.

    Returns:
        The norm before, a scalar tensor.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with torch.no_grad():
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """:func:`clip_grad_norm_` by its older name."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value], in place."""
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    limit = float(clip_value)
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.clamp_(min=-limit, max=limit)
