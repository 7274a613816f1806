"""What is found out about a driver, and that it is remembered."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from webgpu_torch_backend_wgpu import facts
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.facts import TYPICAL, Facts, known_facts
from webgpu_torch_backend_wgpu.gpu.interface import GpuError

OPEN = """
import json, sys, time
from webgpu_torch_backend_wgpu import facts
from webgpu_torch_backend_wgpu.backend import WgpuBackend
tests = []
run = facts._Test.run
facts._Test.run = lambda self: (tests.append(1), run(self))[1]
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
    assert found.units >= 1
    assert 1e-7 <= found.dispatch < 0.1


def test_a_self_test_that_fails_keeps_nobody_from_computing(
    webgpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(facts, "_NUMERICS", "{enable}{halves} this is no WGSL")
    backend = WgpuBackend()
    assert backend.open(0).capabilities.facts == TYPICAL[backend.adapters()[0].kind]  # type: ignore[attr-defined]
    assert not list(tmp_path.rglob("facts.json"))


def test_no_home_folder_is_no_reason_to_fail(webgpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("WEBGPU_TORCH_CACHE", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    device = WgpuBackend().open(0)
    assert device.read(device.allocate(8), 4) is not None


def test_the_speed_of_a_clock_that_is_too_coarse_is_not_believed() -> None:
    assert facts._sane(5e30, 1e12, 1000) == 1e12
    assert facts._sane(3e12, 1e12, 1000) == 3e12
    assert facts._sane(0, 16, 100) == 16
    assert TYPICAL["discrete"].threads == 1 << 17


@pytest.mark.parametrize("wakes", [0.0, 0.8, 100.0])
def test_speeds_are_measured_when_clocks_are_up(wakes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def seconds(*_: object) -> float:
        # Clocks rise by a tenth in each tenth of a second until the GPU is awake.
        now[0] += 0.01
        return 0.004 * 0.9 ** (10 * min(now[0], wakes))

    test = object.__new__(facts._Test)
    monkeypatch.setattr(test, "_seconds", seconds)
    monkeypatch.setattr(facts.time, "perf_counter", lambda: now[0])
    test._warm_up(None)  # type: ignore[arg-type]
    assert min(wakes, facts._PATIENCE) <= now[0] < min(wakes + facts._STEADY, facts._PATIENCE) + 0.05


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
    for value, bits in facts._HALVES:
        single = struct.unpack("f", struct.pack("f", value))[0]
        assert struct.unpack("H", struct.pack("e", single))[0] == bits
