"""The seeds that loaders draw."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core.record.devices import host_device


def draw_seed(generator: Any = None) -> int:
    """Return a random 63-bit integer; drawing it moves the generator on."""
    return int(torch.empty((), dtype=torch.int64, device=host_device()).random_(generator=generator).item())
