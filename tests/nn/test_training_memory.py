"""A long training loop keeps memory flat: buffers, bytes on the device, and the process itself."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import webgpu_torch_core as core
import webgpu_torch_nn as nn
from nn_oracle import to_ours
from webgpu_torch_core.record.devices import canonical_device, engine_for


def _resident_bytes() -> int:
    """Return the memory of this process, 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


class Training:
    """A small network under AdamW with a learning rate that changes in every step."""

    def __init__(self, device: str) -> None:
        core.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1)).to(device)
        self.optimizer = nn.optim.AdamW(self.model.parameters(), lr=0.01)
        self.schedule = nn.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.999)
        inputs = torch.linspace(-1, 1, 32).reshape(8, 4)
        self.x, self.y = (to_ours(each, device) for each in (inputs, inputs.square().sum(1, keepdim=True)))

    def take(self, count: int) -> list[float]:
        losses: list[Any] = []
        for _ in range(count):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(self.x), self.y)
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            losses.append(loss.item())
        return losses


@pytest.mark.slow_on("webgpu-200")
@pytest.mark.parametrize("steps", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_training_leaves_memory_flat(device: str, steps: int) -> None:
    training = Training(device)
    first = training.take(60)[0]
    place = engine_for(canonical_device(device)).device
    gc.collect()
    place.synchronize()
    buffers, allocated = place.live_buffers(), place.memory_allocated()
    # Room for the allocator; a kilobyte leaked in every step takes as much.
    room, growths = max(steps << 10, 1 << 19), []
    gc.disable()
    try:
        # What leaks does so every time; what is made once, such as a kernel compiled for sizes that come back, or a part of the
        # allocator's own, does not.
        while not growths or (growths[-1] >= room and len(growths) < 3):
            resident = _resident_bytes()
            last = training.take(steps)[-1]
            place.synchronize()
            growths.append(_resident_bytes() - resident)
            # Without the cycle collector's help: what a step leaves behind in a cycle would pile up.
            assert place.live_buffers() <= buffers
            assert place.memory_allocated() <= allocated
    finally:
        gc.enable()
    assert growths[-1] < room, f"the process grew by {growths} bytes in {steps} steps each"
    assert last < first * 0.5, f"the loss went from {first} to {last}"
