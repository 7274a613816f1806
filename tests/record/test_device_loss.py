"""A device that is lost: what lived there says so, and the next use opens it again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import webgpu_torch as torch
from webgpu_torch_core.api import webgpu
from webgpu_torch_core.backend.interface import Device, DeviceLostError
from webgpu_torch_core.backend.plugins import registry
from webgpu_torch_core.record import devices

REASON = "the WebGPU device was lost while testing"


@pytest.fixture
def opened() -> Iterator[Device]:
    """A second opened device in the place of the first, which comes back afterwards."""
    key = ("webgpu", 0)
    kept = devices.engine_for(devices.device(*key)), registry.device(*key)
    registry.close(*key)
    del devices._engines[key]
    yield devices.engine_for(devices.device(*key)).device
    devices._engines[key], registry._devices[key] = kept


def test_what_lived_there_says_so_and_the_next_use_opens_it_again(opened: Device) -> None:
    computed = torch.ones(3, device="webgpu")
    assert computed.tolist() == [1.0] * 3
    pending = computed * 2
    opened.lost = REASON
    assert not webgpu.is_available()
    for each in (computed, pending, pending + 1):
        with pytest.raises(DeviceLostError, match=REASON):
            each.tolist()
    webgpu.reset()
    assert webgpu.is_available()
    again = torch.ones(3, device="webgpu")
    assert (again * 2).tolist() == [2.0] * 3
    with pytest.raises(DeviceLostError, match=REASON):
        (again + computed).tolist()
    assert (again + 1).tolist() == [2.0] * 3


@pytest.mark.parametrize("count", [5, 263])
def test_transforms_after_a_loss(opened: Device, count: int) -> None:
    expected = torch.fft.fft(torch.ones(count)).abs().tolist()
    assert torch.fft.fft(torch.ones(count, device="webgpu")).abs().tolist() == pytest.approx(expected, abs=1e-3)
    opened.lost = REASON
    webgpu.reset()
    assert torch.fft.fft(torch.ones(count, device="webgpu")).abs().tolist() == pytest.approx(expected, abs=1e-3)


def test_losses_at_any_moment() -> None:
    draw, key = random.Random(3), ("webgpu", 0)
    kept = devices.engine_for(devices.device(*key)), registry.device(*key)
    registry.close(*key)
    del devices._engines[key]
    host = torch.ones(3, device="cpu")
    try:
        for place in ("allocate", "advance", "read", "write") * 3:
            device = devices.engine_for(devices.device(*key)).device
            x, y = torch.ones(3, device="webgpu"), torch.arange(3.0, device="webgpu")
            left = [draw.randint(1, 3)]

            def lost(
                *arguments: Any, method: Any = getattr(device, place), device: Any = device, left: Any = left
            ) -> Any:
                left[0] -= 1
                if not left[0]:
                    device.lost = REASON
                    raise DeviceLostError(REASON)
                return method(*arguments)

            setattr(device, place, lost)
            with pytest.raises(DeviceLostError, match=REASON):
                for _ in range(4):
                    x = x + y + torch.tensor([1.0], device="webgpu")
                    (x @ y).tolist()
            for each in (x, y):
                with pytest.raises(DeviceLostError, match=REASON):
                    (each + 1).tolist()
                with pytest.raises(DeviceLostError, match=REASON):
                    each.tolist()
            assert not webgpu.is_available()
            if draw.random() < 0.5:
                webgpu.reset()
            assert (torch.ones(2, device="webgpu") * 2).tolist() == [2.0, 2.0]
            assert webgpu.is_available() and (host + 1).tolist() == [2.0] * 3
    finally:
        registry.close(*key)
        devices._engines[key], registry._devices[key] = kept


def test_the_next_use_is_enough(opened: Device) -> None:
    opened.lost = REASON
    assert torch.ones(2, device="webgpu").tolist() == [1.0, 1.0]
    assert webgpu.is_available()
