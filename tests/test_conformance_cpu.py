"""The conformance suite on the CPU backend."""

from __future__ import annotations

import pytest
from webgpu_torch_backend_cpu.plugin import CpuBackend
from webgpu_torch_testing import BackendConformance


class TestCpuDevice(BackendConformance):
    def device(self):
        return CpuBackend().open(0)


@pytest.mark.slow
class TestCpuDeviceCompiled(BackendConformance):
    """All that has machine code runs as machine code."""

    @pytest.fixture(autouse=True)
    def compiled(self, monkeypatch):
        pytest.importorskip("llvmlite")
        monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")

    def device(self):
        return CpuBackend().open(0)
