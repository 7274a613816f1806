"""The devices that the parity tests of operations run on."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from webgpu_torch_core.backend.plugins import registry

sys.path.insert(0, str(Path(__file__).parent))

from ops_oracle import ANSWERED  # noqa: E402

_PLUGINS = {"cpu": "webgpu_torch_backend_cpu.plugin", "webgpu": "webgpu_torch_backend_wgpu.plugin"}


def _opens(name: str) -> bool:
    """Return whether a device type has a backend here with a device that opens."""
    registry.load()
    if name not in registry.backends and name in _PLUGINS:
        try:
            registry.register(importlib.import_module(_PLUGINS[name]))
        except ImportError:
            return False
    if name not in registry.backends or registry.backends[name].device_count() == 0:
        return False
    try:
        registry.device(name, 0)
    except RuntimeError:
        return False
    return True


def _devices() -> list[str]:
    named = os.environ.get("WEBGPU_TORCH_TEST_DEVICES")
    if named:
        wanted = named.split(",")
        missing = [each for each in wanted if not _opens(each)]
        if missing:
            raise pytest.UsageError(f"WEBGPU_TORCH_TEST_DEVICES names devices that do not open: {', '.join(missing)}")
        return wanted
    return [each for each in ("cpu", "webgpu") if _opens(each)]


@pytest.fixture(params=_devices())
def device(request: pytest.FixtureRequest) -> str:
    """Every device of this machine, one after the other."""
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test in which PyTorch refused whatever it was asked and this library did not: it has compared nothing."""
    ANSWERED.clear()
    result = yield
    if ANSWERED and not any(ANSWERED):
        pytest.fail(
            f"PyTorch refused all {len(ANSWERED)} cases of {item.name}, and this library not likewise: nothing was compared"
        )
    return result
