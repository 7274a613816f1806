"""Mixed precision for CUDA, as ``torch.cuda.amp``: deprecated in PyTorch for ``torch.amp``, and switched off without CUDA."""

from __future__ import annotations

import functools
import warnings

from webgpu_torch_core import autocast as _autocast
from webgpu_torch_core import dtype as _dtype
from webgpu_torch_core import float16
from webgpu_torch_nn import amp as _amp

custom_fwd = functools.partial(_amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(_amp.custom_bwd, device_type="cuda")


class autocast(_autocast):
    """A region of CUDA computations in a 16-bit type; it warns and changes nothing, as PyTorch's without CUDA."""

    def __init__(self, enabled: bool = True, dtype: _dtype = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """A scaler of losses for CUDA; it warns and changes nothing, as PyTorch's without CUDA."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:  # fmt: skip
        if enabled:
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled=False)
