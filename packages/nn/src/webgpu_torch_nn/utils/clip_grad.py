"""Limiting gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn
from webgpu_torch_core.replay.recipes import remembered
from webgpu_torch_core.replay.updates import Rule

_HALVES = frozenset((torch.float16, torch.bfloat16, torch.complex32))


def _norm(tensor: Tensor, norm_type: float) -> Tensor:
    if norm_type == float("inf"):
        return tensor.abs().max()
    return tensor.norm(norm_type)


@remembered
def _total(tensors: list[Tensor], norm_type: float) -> Tensor:
    device = tensors[0].device
    # Roots of parts would be squared again; the squares of halves do not fit into halves.
    squares = norm_type == 2.0 and all(each.dtype not in _HALVES for each in tensors)
    given = [each.abs() if each.is_complex() else each for each in tensors]
    parts = [(each * each).sum() if squares else _norm(each, norm_type) for each in given]
    together = torch.stack([each if each.device == device else each.to(device) for each in parts])
    return together.sum().sqrt() if squares else _norm(together, norm_type)


@torch.no_grad()
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


@torch.no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply the gradients by ``min(1, max_norm / (total_norm + 1e-6))``; nothing is read back from the device."""
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [grad for parameter in parameters if (grad := parameter.grad) is not None]
    if grads:
        _scale(total_norm, float(max_norm), 1e-6, *grads)


@Rule
def _scale(total: Tensor, limit: float, margin: float, *grads: Tensor) -> None:
    factor = torch.clamp(limit / (total + margin), max=1)
    for grad in grads:
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
    total = get_total_norm([each.grad for each in parameters if each.grad is not None], norm_type, error_if_nonfinite)
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
