"""Which adapters are found, and that looking for them is silent."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LIST = (
    "from webgpu_torch_backend_wgpu.backend import WgpuBackend; print([each.api for each in WgpuBackend().adapters()])"
)
COMPUTE = """
from webgpu_torch_backend_wgpu.backend import WgpuBackend
import webgpu_torch_core as torch
from webgpu_torch_core.backend.plugins import registry
registry.load()
registry.backends["webgpu"] = WgpuBackend()
x = torch.arange(12.0, device="webgpu").reshape(3, 4)
print((x @ x.t()).softmax(-1).sum().item(), registry.device("webgpu", 0).description()["api"])
"""


def _run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"} | variables
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)


def test_looking_for_adapters_is_silent() -> None:
    found = _run(LIST, WEBGPU_TORCH_ADAPTER="")
    assert found.stderr == ""
    kinds = set(eval(found.stdout))
    assert kinds <= {"Vulkan", "Metal", "D3D12"} or kinds <= {"OpenGL", "OpenGLES"}, kinds


def test_opengl_computes_where_it_is_all_there_is() -> None:
    if "OpenGL" not in _run(LIST, WEBGPU_TORCH_ADAPTER="opengl").stdout:
        pytest.skip("no OpenGL adapter on this machine")
    value, api = _run(COMPUTE, WEBGPU_TORCH_ADAPTER="opengl").stdout.split()
    assert api.startswith("OpenGL")
    assert float(value) == pytest.approx(3.0, rel=1e-6)


def test_no_adapter_by_that_name() -> None:
    assert _run(LIST, WEBGPU_TORCH_ADAPTER="no such card").stdout.strip() == "[]"
