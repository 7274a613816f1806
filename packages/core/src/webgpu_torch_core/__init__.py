"""webgpu-torch core: tensors, autograd, the lazy graph and its compiler, in pure Python."""

from __future__ import annotations

from . import autograd, functional, plugins
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .capture import compile  # noqa: A004 - PyTorch's own spelling
from .devices import device, get_default_device, set_default_device
from .dtypes import (
    bfloat16,
    complex64,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
)
from .dtypes import bool_ as bool  # noqa: A004 - PyTorch's own spelling
from .generator import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .ops import attach_all
from .tensor import Size, Tensor

half, float, double = float16, float32, float64  # noqa: A001
short, int, long = int16, int32, int64  # noqa: A001
cfloat = complex64
strided = "torch.strided"

attach_all(globals())

__version__ = "0.1.0"
