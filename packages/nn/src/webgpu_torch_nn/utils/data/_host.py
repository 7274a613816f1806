"""Where the loaders' own small tensors live."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core.backend.plugins import registry


def host_device() -> str:
    """Return the device that computes on the host and draws PyTorch's CPU stream, whatever the default device is."""
    registry.load()
    return "cpu" if "cpu" in registry.backends else "python"


def draw_seed(generator: Any = None) -> int:
    """Return a random 63-bit integer; drawing it moves the generator on."""
    return int(torch.empty((), dtype=torch.int64, device=host_device()).random_(generator=generator).item())
