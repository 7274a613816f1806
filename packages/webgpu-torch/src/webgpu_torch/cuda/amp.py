"""Mixed precision for CUDA, as ``torch.cuda.amp``: deprecated in PyTorch for ``torch.amp``, and switched off without CUDA."""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core import autocast as _autocast
from webgpu_torch_core import dtype as _dtype
from webgpu_torch_core import float16
from webgpu_torch_core.notices import warn
from webgpu_torch_nn import amp as _amp

_Function = Callable[..., object]


def _warn(name: str, instead: str) -> None:
    warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{instead}` instead.", FutureWarning)


def custom_fwd(fwd: _Function | None = None, *, cast_inputs: _dtype | None = None) -> _Function:
    """Decorate a custom function's forward pass, as ``torch.amp.custom_fwd`` for CUDA; deprecated."""
    _warn("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: _Function | None = None) -> _Function:
    """Decorate a custom function's backward pass, as ``torch.amp.custom_bwd`` for CUDA; deprecated."""
    _warn("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return _amp.custom_bwd(bwd, device_type="cuda")


class autocast(_autocast):
    """A region of CUDA computations in a 16-bit type; it warns and changes nothing, as PyTorch's without CUDA."""

    def __init__(self, enabled: bool = True, dtype: _dtype = float16, cache_enabled: bool = True) -> None:
        _warn("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """A scaler of losses for CUDA; it warns and changes nothing, as PyTorch's without CUDA."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:  # fmt: skip
        _warn("GradScaler", "GradScaler('cuda', args...)")
        if enabled:
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled=False)
