"""Where measurements are tested."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(params=["cpu", "webgpu"])
def device(request: pytest.FixtureRequest) -> str:
    """The installed devices among those that WEBGPU_TORCH_TEST_DEVICES names ("cpu,webgpu" if unset)."""
    from webgpu_torch_core.backend.plugins import registry

    registry.load()
    name: str = request.param
    wanted = os.environ.get("WEBGPU_TORCH_TEST_DEVICES", "cpu,webgpu").split(",")
    if name not in wanted or name not in registry.backends or registry.backends[name].device_count() == 0:
        pytest.skip(f"no {name} here")
    return name
