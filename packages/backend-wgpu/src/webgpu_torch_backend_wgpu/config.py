"""The environment variables that this backend reads."""

from __future__ import annotations

from webgpu_torch_core.config import Variable

ADAPTER = Variable(
    "WEBGPU_TORCH_ADAPTER", "part of the name of the adapters that count: vendor, device, driver or kind"
)
CACHE = Variable("WEBGPU_TORCH_CACHE", "the folder of what is measured once, such as the facts about an adapter")
CHECKED = Variable("WEBGPU_TORCH_CHECKED", "1: WebGPU modules with bounds checks")
