"""An opened WebGPU device, and a clear word where the machine has none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

REQUIRED = os.environ.get("WEBGPU_TORCH_REQUIRE_WGPU") == "1"


def _missing() -> str:
    """Return why there is no WebGPU adapter here; empty where there is one."""
    try:
        from webgpu_torch_backend_wgpu.backend import WgpuBackend

        backend = WgpuBackend()
        if backend.device_count():
            return ""
        return backend.describe()["adapter"]
    except (ImportError, OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep plans out of files: tests change what they are made by."""
    device = sys.modules.get("webgpu_torch_backend_wgpu.device")
    if device is not None:
        monkeypatch.setattr(device.WgpuDevice, "plan_files", None)


@pytest.fixture(scope="session")
def webgpu() -> None:
    """Skip where there is no WebGPU adapter; fail instead where ``WEBGPU_TORCH_REQUIRE_WGPU=1``."""
    reason = _missing()
    if not reason:
        return
    if REQUIRED:
        pytest.fail(f"WEBGPU_TORCH_REQUIRE_WGPU=1, but no WebGPU adapter is usable: {reason}")
    pytest.skip(f"no WebGPU adapter is usable: {reason}")


@pytest.fixture
def opened(webgpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Yield a device of its own for one test; its caches go to a temporary folder."""
    from webgpu_torch_backend_wgpu.backend import WgpuBackend

    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    device = WgpuBackend().open(0)
    yield device
    device.synchronize()
