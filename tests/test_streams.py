"""Streams and events: one queue for each device, as programs for accelerators use them."""

from __future__ import annotations

from typing import Any

import pytest
import torch as reference
import webgpu_torch as torch
from hypothesis import given
from hypothesis import strategies as st

needs_webgpu = pytest.mark.skipif("not torch.webgpu.is_available()", reason="no WebGPU adapter is usable")
DEVICES = ["cpu", pytest.param("webgpu", marks=needs_webgpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_work_is_done_behind_an_event(device: str) -> None:
    stream = torch.Stream(device)
    start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    x = torch.ones(100, 100, device=device)
    with stream as entered:
        assert entered is stream
        start.record()
        y = x @ x
        stream.record_event(end)
    side = torch.Stream(device)
    side.wait_event(end)
    side.wait_stream(stream)
    end.synchronize()
    assert start.query() and end.query() and stream.query()
    assert 0 <= start.elapsed_time(end) < 60_000
    assert end.elapsed_time(start) <= 0
    assert y[0, 0].item() == 100
    assert stream == side and len({stream, side}) == 1


def test_they_look_as_pytorchs() -> None:
    assert repr(torch.Stream("cpu")) == repr(reference.Stream("cpu"))
    assert repr(torch.Event("cpu")) == repr(reference.Event("cpu"))
    for name in ("device", "device_index", "stream_id"):
        assert str(getattr(torch.Stream("cpu"), name)) == str(getattr(reference.Stream("cpu"), name))


@given(timing=st.tuples(st.booleans(), st.booleans()), recorded=st.tuples(st.booleans(), st.booleans()))
def test_times_are_of_recorded_events_that_take_them(timing: tuple[bool, bool], recorded: tuple[bool, bool]) -> None:
    def events(library: Any) -> list[Any]:
        return [library.Event("cpu", enable_timing=each) for each in timing]

    ours = events(torch)
    for event, does in zip(ours, recorded, strict=True):
        if does:
            event.record()
    if all(timing) and all(recorded):
        assert ours[0].elapsed_time(ours[1]) >= 0
        return
    with pytest.raises(ValueError) as told:
        ours[0].elapsed_time(ours[1])
    # PyTorch's CPU records no events: what it says of those that are not recorded is all there is.
    with pytest.raises(ValueError) as wanted:
        first, second = events(reference)
        first.elapsed_time(second)
    assert str(told.value) == str(wanted.value)


def test_a_streams_device_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        torch.Event("cpu").record(torch.Stream("webgpu:3"))
    monkeypatch.setattr("webgpu_torch.streams.accelerator", lambda: None)
    for refused in (lambda: torch.Stream(0), lambda: torch.Event(0), torch.accelerator.current_stream):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            refused()
    assert torch.Stream().device == torch.device("cpu")


@needs_webgpu
def test_the_accelerators_first_device_is_the_current_one() -> None:
    place = torch.accelerator.current_accelerator()
    stream = torch.accelerator.current_stream()
    assert stream.device == torch.device(place.type, 0) == torch.accelerator.current_stream(0).device
    torch.accelerator.set_stream(stream)
    torch.accelerator.set_device_index(-1)
    with torch.accelerator.device_index(0), torch.accelerator.device_index(None):
        assert torch.accelerator.current_device_index() == 0
    with pytest.raises(RuntimeError, match="name the other by device='webgpu:1'"):
        torch.accelerator.set_device_index(1)
    with pytest.raises(ValueError, match="cpu doesn't match the current accelerator webgpu"):
        torch.accelerator.set_device_index("cpu")
    supported: Any = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.float32 in supported and torch.float64 not in supported
