"""Dawn behind the same interface: ``DAWN_LIB`` or its wheel, and a driver that it accepts (SwiftShader, say)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.backend import WgpuBackend, chosen_runtime
from webgpu_torch_backend_wgpu.gpu import choosing, dawn, dawn_library, natives
from webgpu_torch_backend_wgpu.gpu.interface import DEFAULT_LIMITS, Adapter

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
    dawn_library.works.cache_clear()
    with pytest.raises(RuntimeError, match="Dawn cannot be used: the self-test of /nowhere"):
        chosen_runtime()
    dawn_library.works.cache_clear()
    monkeypatch.setenv("WEBGPU_TORCH_RUNTIME", "metal")
    with pytest.raises(RuntimeError, match="names no runtime; there are wgpu and dawn"):
        chosen_runtime()


# A device consumes the adapter that it is made of.
ANEW = """
import webgpu_torch as torch
from webgpu_torch_core.backend.plugins import registry
for turn in range(3):
    x = torch.arange(5.0, device="webgpu")
    assert (x * x).tolist() == [0.0, 1.0, 4.0, 9.0, 16.0]
    torch.webgpu.reset()
backend = registry.backend("webgpu")
devices = [backend.open(0), backend.open(0)]
print(backend.describe()["runtime"], len({each.gpu for each in devices}))
"""


def _on_dawn(program: str) -> list[str]:
    able, reason = dawn_library.works()
    if not able:
        pytest.skip(f"Dawn cannot be used here: {reason}")
    environment = {**os.environ, "WEBGPU_TORCH_RUNTIME": "dawn"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_dawn_trains_as_the_cpu_does() -> None:
    name, *_, dispatches = _on_dawn(PROGRAM)
    assert name == "dawn"
    assert int(dispatches) > 10


def test_an_adapter_is_opened_several_times() -> None:
    name, *_, devices = _on_dawn(ANEW)
    assert (name, devices) == ("dawn", "2")


LATER = """
import signal, threading, time
import webgpu_torch as torch
from webgpu_torch_backend_wgpu.gpu.encoder import library
from webgpu_torch_backend_wgpu.gpu.interface import GpuError
from webgpu_torch_core.backend.plugins import registry
from webgpu_torch_core.record.devices import flush
x = torch.arange(5.0, device="webgpu")
x.tolist()
gpu = registry.device("webgpu", 0).gpu
compiled = gpu._pipeline
gpu._pipeline = lambda request: (time.sleep(0.4), compiled(request))[1]
y = x * x + 1
before = time.perf_counter()
flush()
# Without the encoder the thread that records waits.
assert (time.perf_counter() - before < 0.4) == bool(library())
z = y.clone().sub_(2)
assert y.tolist() == [1.0, 2.0, 5.0, 10.0, 17.0] and z.tolist() == [-1.0, 0.0, 3.0, 8.0, 15.0]
# An interrupt in a wait loses nothing.
w = (z.exp() + z).cumsum(0)
threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
interrupted = False
try:
    w.tolist()
except KeyboardInterrupt:
    interrupted = True
gpu._pipeline = compiled
wanted = (z.cpu().exp() + z.cpu()).cumsum(0)
assert interrupted and torch.allclose(w.cpu(), wanted), (interrupted, w, wanted)
# What cannot be compiled is told, and nothing is read that was not computed.
gpu._pipeline = lambda request: GpuError("internal", "too many registers")
v, told = (x - 7).sigmoid(), []
for read in (v.tolist, v.tolist, x.tolist):
    try:
        read()
    except RuntimeError as error:
        told.append("too many registers" in str(error))
assert told == [True] * 3 if library() else told[:2] == [True] * 2, told
print(registry.backend("webgpu").describe()["runtime"])
"""

FREED = """
import resource
import webgpu_torch as torch
from webgpu_torch_core.backend.plugins import registry
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20
held = [torch.full((4 << 20,), each, device="webgpu") for each in range(12)]
assert [each[0].item() for each in held] == list(range(12))
before = resident()
del held
torch.webgpu.empty_cache()
print(registry.device("webgpu", 0).adapter.kind, before - resident())
"""

KEPT = """
import webgpu_torch as torch
from webgpu_torch_backend_wgpu.gpu.blobs import files
read, found = files.read, []
files.read = lambda name: found.append(read(name)) or found[-1]
x = torch.arange(12.0, device="webgpu").reshape(3, 4)
assert (x @ x.t()).softmax(-1).sum().item() == 3
files.write_waiting()
print(len(found) - found.count(None), found.count(None))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is not told here")
def test_what_is_given_back_is_free_at_once() -> None:
    """Dawn frees what was destroyed with work that comes after it."""
    kind, megabytes = _on_dawn(FREED)
    if kind != "cpu":
        pytest.skip("what a GPU's memory holds is not told")
    assert int(megabytes) > 12 * 16 * 0.8


def test_recording_goes_on_while_kernels_are_compiled() -> None:
    assert _on_dawn(LATER)[0] == "dawn"


def test_the_next_process_finds_what_was_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    first, second = ([int(each) for each in _on_dawn(KEPT)[-2:]] for _ in range(2))
    assert first[1] > 0
    assert second[0] > 0 == second[1]


class _Waits:
    """Stands for a library whose future is done when it was asked some times, or slept for."""

    def __init__(self, asked: int) -> None:
        self.left, self.timeouts, self._instance = asked, list[int](), None
        self.ffi = self.lib = self

    def new(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(future=None, completed=0)

    def wgpuInstanceWaitAny(self, instance: None, count: int, waits: SimpleNamespace, timeout: int) -> None:
        self.timeouts.append(timeout)
        self.left -= 1
        waits.completed = int(timeout > 0 or self.left <= 0)


@given(st.integers(1, 50))
def test_a_wait_asks_before_it_sleeps(asked: int) -> None:
    at_once, later, never = (_Waits(each) for each in (asked, asked, 1 << 40))
    for runtime, polling in ((at_once, 1000.0), (later, 0.0), (never, 1e-5)):
        dawn.DawnRuntime.wait(cast("Any", runtime), None, polling)
    assert at_once.timeouts == [0] * asked
    assert len(later.timeouts) == 1 and later.timeouts[0] > 0
    *before, last = never.timeouts
    assert not any(before) and last > 0


def _card(kind: str) -> Adapter:
    return Adapter(0, "vendor", "card", "driver 1", "Vulkan", kind, 1, 2, frozenset(), DEFAULT_LIMITS)


def test_the_faster_one_is_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    library = tmp_path / "libwebgpu_dawn.so"
    library.write_bytes(b"one")
    asked: list[str] = []
    times = {"wgpu": {"products of halves": 7.0, "sums": 1.0}, "dawn": {"products of halves": 1.0, "sums": 1.5}}
    monkeypatch.setattr(choosing, "measured", lambda name: asked.append(name) or times[name])
    name, why = choosing.faster_runtime(_card("discrete"), str(library))
    assert (name, asked) == ("dawn", ["wgpu", "dawn"])
    assert why == "measured here: Dawn is 2.16 times as fast (products of halves 7.00, sums 0.67)"
    assert choosing.faster_runtime(_card("discrete"), str(library)) == (name, why)
    assert len(asked) == 2
    # Another library is measured anew; what is slower on the average is not taken.
    library.write_bytes(b"another")
    times["dawn"]["products of halves"] = 6.0
    assert choosing.faster_runtime(_card("discrete"), str(library))[0] == "wgpu"
    assert len(asked) == 4
    assert choosing.faster_runtime(_card("cpu"), str(library))[0] == "wgpu"
    assert len(asked) == 4


def test_a_runtime_that_does_not_compute_is_not_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))

    def measured(name: str) -> dict[str, float]:
        if name == "dawn":
            raise ValueError("it ended with status -11")
        return {"sums": 1.0}

    monkeypatch.setattr(choosing, "measured", measured)
    found = choosing.faster_runtime(_card("discrete"), "/nowhere/libwebgpu_dawn.so")
    assert found == ("wgpu", "the self-test of dawn failed: it ended with status -11")


def test_without_a_library_wgpu_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEBGPU_TORCH_RUNTIME", raising=False)
    monkeypatch.setattr(dawn_library, "library", lambda: None)
    runtime, why = chosen_runtime()
    assert (runtime.name, why) == ("wgpu", "the default")
    assert WgpuBackend().describe()["runtime"].endswith(", the default")


def test_what_was_taken_before_needs_no_other_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Listed:
        def __init__(self, name: str) -> None:
            asked.append(name)
            self.name = name

        def adapters(self, suits: object) -> list[Adapter]:
            return [_card("discrete").replace(description=f"{self.name} {driver[0]}")]

    asked: list[str] = []
    driver = ["driver 1"]
    library = tmp_path / "libwebgpu_dawn.so"
    library.write_bytes(b"one")
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    monkeypatch.delenv("WEBGPU_TORCH_RUNTIME", raising=False)
    monkeypatch.setattr(dawn_library, "library", lambda: str(library))
    monkeypatch.setattr(dawn, "DawnRuntime", lambda: Listed("dawn"))
    monkeypatch.setattr(natives, "runtime_named", lambda name: Listed(name))
    monkeypatch.setattr(choosing, "measured", lambda name: {"sums": {"wgpu": 2.0, "dawn": 1.0}[name]})
    first = chosen_runtime()
    assert (first[0].name, asked) == ("dawn", ["wgpu", "dawn"])
    asked.clear()
    again = chosen_runtime()
    assert (again[0].name, again[1], asked) == ("dawn", first[1], ["dawn"])
    # Another driver is asked about anew, another library before it is loaded.
    asked.clear()
    driver[0] = "driver 2"
    assert chosen_runtime()[0].name == "dawn"
    assert asked == ["dawn", "wgpu", "dawn"]
    asked.clear()
    library.write_bytes(b"another")
    chosen_runtime()
    assert asked == ["wgpu", "dawn"]


def test_what_computed_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "libwebgpu_dawn.so"
    library.write_bytes(b"one")
    tried: list[str] = []
    answers = [(1, ""), (0, ""), (0, "card\n")]

    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        tried.append("")
        status, told = answers[min(len(tried), len(answers)) - 1]
        return subprocess.CompletedProcess([], status, told, "broken")

    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    monkeypatch.setenv("DAWN_LIB", str(library))
    monkeypatch.setattr(dawn_library.subprocess, "run", run)
    found = []
    for _ in range(5):
        dawn_library.works.cache_clear()
        found.append(dawn_library.works()[0])
    assert (found, len(tried)) == ([False, False, True, True, True], 3)
    library.write_bytes(b"another")
    dawn_library.works.cache_clear()
    assert dawn_library.works()[0]
    assert len(tried) == 4
    dawn_library.works.cache_clear()
