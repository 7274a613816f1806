"""Autocast regions and custom gradients, as ``torch.amp.autocast_mode``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.autocast import autocast as autocast
from webgpu_torch_core.dispatch.autocast import get_autocast_dtype, is_autocast_enabled
from webgpu_torch_core.dispatch.autocast import is_autocast_available as is_autocast_available
from webgpu_torch_core.ir.dtypes import dtype, float64


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    """Return tensors, in containers too, in another floating-point type."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not float64
        return value.to(dtype) if eligible else value
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {_cast(key, device_type, dtype): _cast(each, device_type, dtype) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cast(each, device_type, dtype) for each in value)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Callable[..., Any]:
    """Decorate a custom ``forward``: with ``cast_inputs`` it runs outside the region on inputs of that type."""
    if fwd is None:
        return lambda function: custom_fwd(function, device_type=device_type, cast_inputs=cast_inputs)
    inner = fwd

    @wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return inner(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return inner(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate a custom ``backward``: it runs in the region that its ``forward`` ran in."""
    if bwd is None:
        return lambda function: custom_bwd(function, device_type=device_type)
    inner = bwd

    @wraps(inner)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return inner(*args, **kwargs)

    return backward
