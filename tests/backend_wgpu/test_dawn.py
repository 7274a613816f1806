"""Dawn behind the same interface: ``DAWN_LIB`` or its wheel, and a driver that it accepts (SwiftShader, say)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from webgpu_torch_backend_wgpu.backend import chosen_runtime
from webgpu_torch_backend_wgpu.gpu import dawn

PROGRAM = """
import webgpu_torch as torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.GELU(), torch.nn.LayerNorm(30), torch.nn.Linear(30, 5))
x, labels = torch.randn(64, 20), torch.arange(64) % 5
found = []
for device in ("cpu", "webgpu"):
    ours = [parameter.detach().clone().to(device).requires_grad_() for parameter in model.parameters()]
    values = dict(zip([name for name, _ in model.named_parameters()], ours))
    loss = torch.nn.functional.cross_entropy(torch.func.functional_call(model.to(device), values, (x.to(device),)), labels.to(device))
    loss.backward()
    order = x.to(device).sort(-1)
    found.append((loss.item(), float(sum(each.grad.abs().sum() for each in ours)), order.values.cumsum(0)[-1, 3].item()))
assert all(abs(one - other) < 1e-3 * abs(one) for one, other in zip(*found)), found
from webgpu_torch_core.backend.plugins import registry
print(registry.backend("webgpu").describe()["runtime"], registry.device("webgpu", 0).statistics["dispatches"])
"""


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_RUNTIME", "dawn")
    monkeypatch.setenv("DAWN_LIB", "/nowhere/libwebgpu_dawn.so")
    dawn.works.cache_clear()
    with pytest.raises(RuntimeError, match="Dawn cannot be used: the self-test of /nowhere"):
        chosen_runtime()
    dawn.works.cache_clear()
    monkeypatch.setenv("WEBGPU_TORCH_RUNTIME", "metal")
    with pytest.raises(RuntimeError, match="names no runtime; there are wgpu and dawn"):
        chosen_runtime()


def test_dawn_trains_as_the_cpu_does() -> None:
    able, reason = dawn.works()
    if not able:
        pytest.skip(f"Dawn cannot be used here: {reason}")
    environment = {**os.environ, "WEBGPU_TORCH_RUNTIME": "dawn"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("dawn ")
    assert int(done.stdout.split()[-1]) > 10
