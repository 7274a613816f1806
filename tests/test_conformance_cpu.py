"""The conformance suite on the CPU backend."""

from __future__ import annotations

from webgpu_torch_backend_cpu.plugin import CpuBackend
from webgpu_torch_testing import BackendConformance


class TestCpuDevice(BackendConformance):
    def device(self):
        return CpuBackend().open(0)
