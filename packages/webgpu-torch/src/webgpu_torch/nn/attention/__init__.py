"""Attention's choice of kernel, as ``torch.nn.attention``: there is one, so choosing changes nothing."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from . import flex_attention as flex_attention


class SDPBackend(enum.IntEnum):
    """The kernels among which PyTorch chooses."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Accept a choice of kernels; this library's own computes attention in any case."""
    yield
