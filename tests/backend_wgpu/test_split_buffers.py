"""Tensors longer than the adapter binds at once, and longer than it makes one buffer: tried by lowering both limits."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from test_checking import opened
from webgpu_torch_backend_wgpu.memory import MOST_PARTS, LongBuffer
from webgpu_torch_core.backend.interface import Copy, OutOfMemoryError, Plan

LIMITS = {"max_storage_buffer_binding_size": 1 << 14, "max_buffer_size": 1 << 16}

COMPUTE = """
import json
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.gpu.native import NativeRuntime
import webgpu_torch as torch
from webgpu_torch_core.backend.plugins import registry

class Small(NativeRuntime):
    def open(self, adapter, features):
        gpu = super().open(adapter, features)
        gpu.limits = gpu.limits.replace(max_storage_buffer_binding_size=1 << 14, max_buffer_size=1 << 16)
        return gpu

registry.load()
registry.backends["webgpu"] = WgpuBackend(Small())

def results(device):
    n = 40_003
    x = torch.arange(n, dtype=torch.float32, device=device)
    wide = torch.arange(40_000, dtype=torch.float32, device=device).reshape(200, 200)
    small = torch.arange(130_001, device=device).to(torch.uint8)
    half = (torch.arange(70_000, device=device) % 100).half()
    index = torch.tensor([0, 39_999, 17_000], device=device)
    y = x.clone()
    y[5:30_000] = 3.0
    y.add_(1)
    small[100:120_000] = 7
    found = [(x + 1)[-3:], x.sum() / n, (x * 2).flip(0)[:3], y[[0, 4, 5, 29_999, 30_000]], small[[99, 100, 119_999, 120_000]]]
    found += [wide.t().contiguous()[3, :4], wide.sum(1)[:3], wide.sum(0)[:3], (wide @ wide[:, :3]).sum() / 1e12, x[index]]
    found += [(half * 2)[-3:], half.sum(dtype=torch.float32), wide.softmax(-1)[7, -2:], x.cumsum(0)[[1, 100, -1]] / 1e8]
    found += [torch.cat([x, x])[[n - 1, n, -1]], (x > 5).sum(), x.to(torch.int32)[-2:], x.tolist()[39_990:]]
    return [each.tolist() if isinstance(each, torch.Tensor) else each for each in found]

print(json.dumps([results("cpu"), results("webgpu")]))
"""


def close(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == pytest.approx(other, rel=1e-4, abs=1e-6)


@pytest.mark.slow
def test_results_over_long_buffers(webgpu: None) -> None:
    done = subprocess.run([sys.executable, "-c", COMPUTE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    expected, found = json.loads(done.stdout)
    for number, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
        assert close(ours, theirs), (number, ours, theirs)


def test_a_long_buffer_is_written_read_and_copied_by_its_parts() -> None:
    device = opened("discrete", **LIMITS)
    one, other, short = device.allocate(200_003), device.allocate(200_003), device.allocate(40_000)
    assert isinstance(one, LongBuffer)
    assert len(one.parts) == 13
    device.write(one, memoryview(bytes(200_003)))
    device.write(one, memoryview(bytes(16_385)))
    assert len(device.read(one, 200_003)) == 200_003
    device.run(Plan([Copy(0, 1, 200_003), Copy(1, 2, 40_000), Copy(2, 0, 39_999)], 3, ()), [one, other, short], [])
    device.synchronize()
    assert device.gpu.broken == []
    assert one.pieces(16_380, 32_772) == [(one.key[0], 16_380, 4), (one.key[1], 0, 16_384), (one.key[2], 0, 4)]
    del one, other
    assert device.memory_allocated() == short.nbytes


def test_what_is_too_long_even_in_parts_is_refused() -> None:
    device = opened("discrete", **LIMITS)
    with pytest.raises(OutOfMemoryError, match=f"at most {MOST_PARTS} parts of 16384"):
        device.allocate((MOST_PARTS + 1) << 14)
    assert device.live_buffers() == 0
