"""Garbage that holds tensors: the interpreter looks for it seldom, and yet it never holds much memory."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest
import webgpu_torch_core as torch
from webgpu_torch_core.backend import collection
from webgpu_torch_core.record.devices import canonical_device, engine_for, synchronize


@pytest.fixture
def seldom() -> Iterator[None]:
    """Let the interpreter by itself look for no garbage."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1 << 30)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Cycle:
    """What refers to itself, and to a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.own = tensor, self


@pytest.mark.parametrize("name", ["cpu", "webgpu"])
def test_tensors_in_cycles_do_not_fill_memory(name: str, seldom: None) -> None:
    try:
        device = engine_for(canonical_device(name)).device
    except RuntimeError:
        pytest.skip(f"no {name} here")
    before = device.memory_allocated()
    most = 0
    for number in range(60):
        Cycle(torch.full((1 << 21,), float(number), device=name) + 1)
        synchronize(name)
        most = max(most, device.memory_allocated())
    # Twice what is in use, but no less than so much, and one more tensor with what it is made of.
    assert most <= 2 * max(before, collection.LEAST_BYTES) + (1 << 25)
    assert most < before + 60 * (1 << 23)


def test_nothing_is_collected_where_collecting_is_off(seldom: None) -> None:
    growth = collection.Growth()
    gc.disable()
    try:
        growth.collect(lambda: 1 << 40)
    finally:
        gc.enable()
    assert growth.next == collection.LEAST_BYTES
    growth.collect(lambda: 1 << 40)
    assert growth.next == 1 << 41


@pytest.mark.parametrize(
    ("first", "then"), [(700, collection.NEW_OBJECTS), (2000, collection.NEW_OBJECTS), (123, 123), (0, 0)]
)
def test_who_decided_how_often_to_collect_is_heard(first: int, then: int, seldom: None) -> None:
    gc.set_threshold(first, 7, 9)
    collection.collect_seldom()
    assert gc.get_threshold() == (then, 7, 9)


def test_importing_lets_garbage_be_collected_seldom() -> None:
    program = "import gc, webgpu_torch; print(gc.get_threshold()[0])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert int(found.stdout) == collection.NEW_OBJECTS
