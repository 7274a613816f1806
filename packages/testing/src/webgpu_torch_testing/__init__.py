"""For authors of backends: a pytest suite to subclass, and ways to run one kernel.

::

    from webgpu_torch_testing import BackendConformance

    class TestMine(BackendConformance):
        def device(self):
            return MyBackend().open(0)
"""

from __future__ import annotations

from .conformance import BackendConformance
from .running import assert_close, interpret, run_kernel

__all__ = ["BackendConformance", "assert_close", "interpret", "run_kernel"]
