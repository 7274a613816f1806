"""The plugin hook: one device per WebGPU adapter."""

from __future__ import annotations

from webgpu_torch_core.backend.interface import Backend
from webgpu_torch_core.backend.plugins import hookimpl

from .backend import WgpuBackend


@hookimpl
def webgpu_torch_backends() -> list[Backend]:
    """Return the WebGPU backend."""
    return [WgpuBackend()]
