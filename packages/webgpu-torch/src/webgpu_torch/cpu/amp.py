"""Mixed precision on the CPU, as ``torch.cpu.amp``: deprecated in PyTorch for ``torch.amp``."""

from __future__ import annotations

from webgpu_torch_core import autocast as _autocast
from webgpu_torch_core import bfloat16
from webgpu_torch_core import dtype as _dtype
from webgpu_torch_core.notices import warn
from webgpu_torch_nn import amp as _amp


def _warn(name: str) -> None:
    warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
    )


class autocast(_autocast):
    """A region of computations in a 16-bit type, as ``torch.amp.autocast("cpu")``; it warns."""

    def __init__(self, enabled: bool = True, dtype: _dtype = bfloat16, cache_enabled: bool = True) -> None:
        _warn("autocast")
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """A scaler of losses, as ``torch.amp.GradScaler("cpu")``; it warns."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:  # fmt: skip
        _warn("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
