"""What is found out about a driver, and that it is remembered."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu import self_test
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.facts import TYPICAL, Facts
from webgpu_torch_backend_wgpu.gpu.interface import WORDS, GpuError
from webgpu_torch_backend_wgpu.self_test import known_facts

OPEN = """
import json, sys, time
from webgpu_torch_backend_wgpu import self_test
from webgpu_torch_backend_wgpu.backend import WgpuBackend
tests = []
run = self_test._Test.run
self_test._Test.run = lambda self: (tests.append(1), run(self))[1]
found = WgpuBackend().open(0).capabilities.facts
print(json.dumps([len(tests), {name: getattr(found, name) for name in found.fields}]))
"""


def started(**variables: str) -> tuple[int, dict[str, object]]:
    """Open a device in a process of its own; returns how many self-tests ran, and the facts."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")
    } | variables
    done = subprocess.run([sys.executable, "-c", OPEN], env=environment, capture_output=True, text=True, check=True)
    tests, found = json.loads(done.stdout)
    return tests, found


def test_the_self_test_runs_once_per_driver(webgpu: None, tmp_path: Path) -> None:
    first, second = started(WEBGPU_TORCH_CACHE=str(tmp_path)), started(WEBGPU_TORCH_CACHE=str(tmp_path))
    assert (first[0], second[0]) == (1, 0)
    assert first[1] == second[1]
    [file] = tmp_path.rglob("facts.json")
    kept = json.loads(file.read_text())
    [key] = kept
    for damage in ("{", "[" * 100_000, "[]", json.dumps({key: {**kept[key], "units": -3}}), json.dumps({key: 5})):
        file.write_text(damage)
        tests, found = started(WEBGPU_TORCH_CACHE=str(tmp_path))
        assert tests == 1
        assert found.keys() == first[1].keys()


def test_what_the_driver_does_is_what_the_facts_say(opened: object) -> None:
    from webgpu_torch_backend_wgpu.numerics import evaluate

    found: Facts = opened.capabilities.facts  # type: ignore[attr-defined]
    gpu = opened.gpu  # type: ignore[attr-defined]
    nan = (0x7FC00000).to_bytes(4, "little")
    told = evaluate(gpu, "select(0u, 1u, a != a)", [("f32", nan)], "u32", (), 1)
    assert bool(told[0]) is found.tells_nan
    subnormal = evaluate(gpu, "a * 2.0f", [("f32", (0x100).to_bytes(4, "little"))], "f32", (), 1)
    assert (int.from_bytes(subnormal, "little") == 0x200) is found.keeps_subnormals
    numbers = [("i32", value.to_bytes(4, "little", signed=True)) for value in (-7, 2)]
    remainder = evaluate(gpu, "a % b", numbers, "i32", (), 1)
    assert (int.from_bytes(remainder, "little", signed=True) == -1) is found.remainders
    third, minus = struct.pack("<f", 1 / 3), struct.pack("<f", -1.0)
    left = evaluate(gpu, "fma(3.0f, a, b)", [("f32", third), ("f32", minus)], "f32", (), 1)
    assert (struct.unpack("<f", left)[0] == 2.0**-25) is found.fuses
    assert found.units >= 1
    assert 1e-7 <= found.dispatch < 0.1


def test_a_self_test_that_fails_keeps_nobody_from_computing(
    webgpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(self_test, "_NUMERICS", "{enable}{halves} this is no WGSL")
    backend = WgpuBackend()
    typical = TYPICAL[backend.adapters()[0].kind].replace(orders_subgroups=False, dots=0.0, products=0.0)
    assert backend.open(0).capabilities.facts == typical  # type: ignore[attr-defined]
    assert not list(tmp_path.rglob("facts.json"))


def test_subgroups_in_another_order_are_not_used(webgpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path / "own"))
    backend = WgpuBackend()
    adapter, known = backend.adapters()[0], backend.open(0).capabilities  # type: ignore[attr-defined]
    if not known.subgroups or not adapter.subgroup_size:
        pytest.skip("subgroups of this adapter differ in size, or there are none")
    assert known.facts.orders_subgroups
    assert known.subgroup_size == adapter.subgroup_size
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(self_test, "_SUBGROUPS", self_test._SUBGROUPS.replace("(thread ^ 1u)", "(thread ^ 2u)"))
    other = WgpuBackend().open(0).capabilities  # type: ignore[attr-defined]
    assert not other.facts.orders_subgroups
    assert other.subgroup_size == 0


def test_no_home_folder_is_no_reason_to_fail(webgpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("WEBGPU_TORCH_CACHE", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    device = WgpuBackend().open(0)
    assert device.read(device.allocate(8), 4) is not None


def test_the_speed_of_a_clock_that_is_too_coarse_is_not_believed() -> None:
    assert self_test._sane(5e30, 1e12, 1000) == 1e12
    assert self_test._sane(3e12, 1e12, 1000) == 3e12
    assert self_test._sane(0, 16, 100) == 16
    assert TYPICAL["discrete"].threads == 1 << 17


class Sleeping:
    """A made-up GPU of 132 units that starts at a fifth of its clock, and the clock of its host.

    ``wakes``: the second at which it begins to rise; ``rises``: the seconds that rising takes.
    """

    def __init__(self, wakes: float, rises: float) -> None:
        self.now, self.wakes, self.rises = 0.0, wakes, rises

    def seconds(self, _: object, groups: int, rounds: int, words: int) -> float:
        """Return how long a dispatch takes on the GPU's clock."""
        rate = min(max((self.now - self.wakes) / self.rises if self.rises else float(self.now >= self.wakes), 0.0), 1.0)
        took = 5e-6 + (-(-groups // 132) * rounds * 7e-7 + words * 8 / 3e12) / (0.2 + 0.8 * rate)
        self.now += took + 2e-4
        return took

    def elapsed(self, commands: Sequence[int]) -> float:
        """Return how long copies of 128 MiB each take on the host's clock."""
        took = 1e-4 + len(commands) // WORDS * 2.5e-4
        self.now += took
        return took


def measuring(gpu: Sleeping, monkeypatch: pytest.MonkeyPatch) -> self_test._Test:
    """Return the self-test over a made-up GPU."""
    test = object.__new__(self_test._Test)
    test.threads, test.typical = 1024, TYPICAL["discrete"]
    test.given = test.found = SimpleNamespace(handle=1)  # type: ignore[assignment]
    monkeypatch.setattr(test, "_seconds", gpu.seconds)
    monkeypatch.setattr(test, "_elapsed", gpu.elapsed)
    monkeypatch.setattr(self_test.time, "perf_counter", lambda: gpu.now)
    return test


@given(wakes=st.floats(0, 3), rises=st.floats(0, 0.9))
def test_speeds_are_measured_when_clocks_are_up(wakes: float, rises: float) -> None:
    # A load that lasts two seconds, or one during which the clock rises, wakes what is made up here.
    assume(wakes + rises < self_test._WAKING or rises == 0.0)
    with pytest.MonkeyPatch.context() as monkeypatch:
        speed = measuring(Sleeping(wakes, rises), monkeypatch)._speed(None)  # type: ignore[arg-type]
    units, flops, bandwidth, copies, dispatch = speed
    awake = 132 * self_test._OPERATIONS * 1024 / 7e-7
    share = flops / awake
    # What is measured goes together: either all of it was measured asleep, or all awake.
    assert units == 132
    assert share == pytest.approx(1.0, rel=0.1) or (wakes > self_test._WAKING and share == pytest.approx(0.2, rel=0.1))
    assert bandwidth == pytest.approx(3e12 * round(share, 1), rel=0.1)
    assert copies == pytest.approx(8 * self_test._WORDS / 2.5e-4)
    assert dispatch == pytest.approx(5e-6)


@pytest.mark.parametrize(("wakes", "rises"), [(0.0, 0.0), (0.0, 0.8), (1.2, 0.0), (0.0, 10.0)])
def test_a_gpu_is_loaded_until_its_clocks_are_up(wakes: float, rises: float, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Sleeping(wakes, rises)
    measuring(gpu, monkeypatch)._warm_up(None)  # type: ignore[arg-type]
    least = min(max(wakes + rises, self_test._WAKING), self_test._PATIENCE)
    assert least <= gpu.now < min(max(wakes + rises + self_test._STEADY, self_test._WAKING), self_test._PATIENCE) + 0.05


def test_a_first_start_is_quick(webgpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    backend = WgpuBackend()
    adapter = backend.adapters()[0]
    gpu = backend.runtime.open(adapter, sorted(adapter.features))
    start = time.process_time()
    assert isinstance(known_facts(gpu, adapter, True), Facts)
    first = time.process_time() - start
    start = time.process_time()
    known_facts(gpu, adapter, True)
    # Processor time: this machine may be busy with other things.
    assert first < 1.0
    assert time.process_time() - start < 0.02
    assert gpu.error() is None
    with pytest.raises(GpuError):
        gpu.buffer(1 << 60)


def test_the_numbers_that_tell_rounding_are_rounded_so() -> None:
    for value, bits in self_test._HALVES:
        single = struct.unpack("f", struct.pack("f", value))[0]
        assert struct.unpack("H", struct.pack("e", single))[0] == bits
