"""Uniform memory: equal numbers are in one place, and plans that share them share bind groups."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.device import WgpuDevice
from webgpu_torch_backend_wgpu.gpu.checking import CheckingRuntime
from webgpu_torch_backend_wgpu.uniforms import CHUNK, Block, Uniforms
from webgpu_torch_core.backend.interface import Plan, Step
from webgpu_torch_core.ir.dtypes import float32, uint32
from webgpu_torch_core.ir.expression import constant, load, make, parameter
from webgpu_torch_core.ir.kernels import Operand, Output, Pointwise, Store

sys.path.insert(0, str(Path(__file__).parent / "golden"))
from profiles import PROFILES


def opened() -> WgpuDevice:
    device = WgpuBackend(CheckingRuntime([PROFILES["default"]])).open(0)
    assert isinstance(device, WgpuDevice)
    return device


class Written:
    """A GPU that only knows what is written to its buffers."""

    def __init__(self) -> None:
        self.buffers: list[bytearray] = []

    def buffer(self, nbytes: int, _use: str) -> int:
        self.buffers.append(bytearray(nbytes))
        return len(self.buffers) - 1

    def own(self, handle: int) -> Any:
        return type("Owner", (), {"handle": handle})()

    def write(self, handle: int, offset: int, data: bytes) -> None:
        assert offset % 256 == 0 and offset + len(data) <= len(self.buffers[handle])
        self.buffers[handle][offset : offset + len(data)] = data


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=600), st.integers(0, 30)), max_size=60))
def test_blocks_hold_what_they_were_asked_for_as_long_as_they_live(steps: list[bytes | int]) -> None:
    gpu = Written()
    uniforms = Uniforms(gpu)  # type: ignore[arg-type]
    alive: list[tuple[bytes, Block]] = []
    for step in steps:
        if isinstance(step, int):
            # Some that nobody needs any more give their place back.
            del alive[:step]
        else:
            alive.append((step, uniforms.block(step)))
        for data, block in alive:
            handle, offset, size = block.bound()
            assert bytes(gpu.buffers[handle][offset : offset + size]) == data.ljust(size, b"\0")
            assert size % 256 == 0 and size >= len(data)
        contents = {data.ljust(block.size, b"\0"): block for data, block in alive}
        assert len({id(block) for _, block in alive}) == len(contents)


def test_places_are_used_again() -> None:
    gpu = Written()
    uniforms = Uniforms(gpu)  # type: ignore[arg-type]
    for number in range(5 * CHUNK // 256):
        uniforms.block(number.to_bytes(4, "little"))
    assert len(gpu.buffers) == 1
    kept = [uniforms.block(number.to_bytes(4, "little")) for number in range(CHUNK // 256 + 1)]
    assert len(gpu.buffers) == 2
    assert uniforms.block((7).to_bytes(4, "little")) is kept[7]


def scaled(count: int) -> Pointwise:
    value = load(0, 0, (1,), float32) * parameter(0, float32)
    return Pointwise(
        (Operand(float32, count),), (Output(float32, count, None),), (float32,), "scale", (count,), (Store(0, 0, (1,), value),)
    )  # fmt: skip


def plan(count: int) -> Plan:
    """Return one that scales so many elements, and as many as always beside."""
    return Plan([Step(scaled(count), (0,), (2,), (0,)), Step(scaled(1000), (1,), (3,), (1,))], 4, ())


def groups_made(device: WgpuDevice, given: Plan, buffers: list[Any], numbers: list[float]) -> int:
    before = device.statistics["bind_groups"]
    # Nobody waits: what comes back after that gets pipelines of its own.
    device.run(given, buffers, numbers)
    return device.statistics["bind_groups"] - before


def test_plans_share_the_bind_groups_of_what_has_the_same_numbers() -> None:
    device = opened()
    buffers = device.allocate_all([1 << 16] * 4)
    for count in (100, 200):
        groups_made(device, plan(count), buffers, [2.0, 3.0])
    plans = [plan(count) for count in range(300, 1000, 100)]
    # Sizes differ, numbers do not, and then the other way round.
    made = [groups_made(device, each, buffers, [2.0, 3.0]) for each in plans]
    assert made[0] <= 2 and made[1:] == [1] * (len(plans) - 1)
    assert groups_made(device, plan(300), buffers, [2.0, 4.0]) == 1
    # Numbers that change are written where only their plan reads them: that takes groups once.
    changing = plans[0]
    assert [groups_made(device, changing, buffers, [2.0, float(number)]) for number in range(4)] == [2, 0, 0, 0]
    assert groups_made(device, plan(300), buffers, [2.0, 3.0]) == 0


def test_blocks_go_with_their_plans() -> None:
    device = opened()
    buffers = device.allocate_all([1 << 16] * 4)
    for number in range(3 * CHUNK // 256):
        groups_made(device, plan(1000), buffers, [float(number), 3.0])
    assert len(device.replayer.uniforms._chunks) == 1


def test_draws_write_their_seeds_where_no_other_plan_reads() -> None:
    device = opened()
    word, numbers = constant(0, uint32), tuple(parameter(number, uint32) for number in range(4))
    value = make("threefry", (word,) * 4 + numbers + (word,), None, uint32)
    kernel = Pointwise((), (Output(uint32, 1000, None),), (uint32,) * 4, "draw", (1000,), (Store(0, 0, (1,), value),))
    drawing = Plan([Step(kernel, (), (0,), (0, 1, 2, 3))], 1, ())
    buffers = device.allocate_all([1 << 16])
    assert [groups_made(device, drawing, buffers, [1, 2, 3, turn]) for turn in range(3)] == [1, 0, 0]
