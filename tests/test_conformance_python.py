"""The conformance suite on the interpreter, held to the results written out in the suite."""

from __future__ import annotations

from webgpu_torch_core.backend.python_device import PythonBackend
from webgpu_torch_testing import BackendConformance


class TestPythonDevice(BackendConformance):
    # Interpreting costs microseconds per element.
    large_elements = 600

    def device(self):
        return PythonBackend().open(0)
