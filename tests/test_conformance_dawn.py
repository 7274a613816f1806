"""The conformance suite on Dawn, where a Dawn library finds a driver that it accepts."""

from __future__ import annotations

import pytest
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.gpu import dawn, dawn_library
from webgpu_torch_testing import BackendConformance


@pytest.mark.slow
class TestDawnDevice(BackendConformance):
    def device(self):
        able, reason = dawn_library.works()
        if not able:
            pytest.skip(f"Dawn cannot be used here: {reason}")
        return WgpuBackend(dawn.DawnRuntime()).open(0)
