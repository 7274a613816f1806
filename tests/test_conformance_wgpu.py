"""The conformance suite on the first WebGPU adapter."""

from __future__ import annotations

import pytest
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_testing import BackendConformance


class TestWebgpuDevice(BackendConformance):
    def device(self):
        backend = WgpuBackend()
        if backend.device_count() == 0:
            pytest.skip("no WebGPU adapter on this machine")
        return backend.open(0)
