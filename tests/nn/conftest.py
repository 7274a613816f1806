"""The devices that the tests of modules run on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def _devices() -> list[str]:
    """Return the installed device types among those that WEBGPU_TORCH_TEST_DEVICES names ("cpu,webgpu" if unset)."""
    wanted = os.environ.get("WEBGPU_TORCH_TEST_DEVICES", "cpu,webgpu").split(",")
    from webgpu_torch_core.backend.plugins import registry

    registry.load()
    return [name for name in wanted if name in registry.backends and registry.backends[name].device_count() > 0]


@pytest.fixture(params=_devices())
def device(request: pytest.FixtureRequest) -> str:
    """Every device of this machine, one after the other."""
    return request.param
