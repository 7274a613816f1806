"""The suite that every backend should pass."""

from __future__ import annotations

from webgpu_torch_backend_example.plugin import ExampleBackend
from webgpu_torch_testing import BackendConformance


class TestExample(BackendConformance):
    # Python loops take microseconds per element.
    large_elements = 2000

    def device(self):
        return ExampleBackend().open(0)
