"""The plan of a long tape that one process made is found by the next one, and is the same."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import webgpu_torch_core as torch
from webgpu_torch_backend_cpu.kept import files as kept_files
from webgpu_torch_core.files import kept
from webgpu_torch_core.record import plans
from webgpu_torch_core.record.devices import engine_for
from webgpu_torch_core.record.engine import Engine
from webgpu_torch_core.scheduling import Scheduled

ENGINE: Engine = engine_for(torch.device("cpu"))
LAYERS = ENGINE.device.plan_length


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Scheduled]]:
    """The plans that the scheduler makes."""
    monkeypatch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(kept_files, "_waiting", [])
    monkeypatch.setattr(kept_files, "_left", kept.MOST_WRITTEN)
    original, found = plans.schedule, []

    def schedule(*args):
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(plans, "schedule", schedule)
    ENGINE.flush()
    monkeypatch.setattr(ENGINE, "plans", plans.Plans())
    yield found


def network(layers: int = LAYERS, sink: float = 1.5) -> torch.Tensor:
    x = torch.arange(24.0, device="cpu").reshape(4, 6)
    weight = torch.linspace(-1, 1, 36, device="cpu").reshape(6, 6)
    for number in range(layers):
        x = (x @ weight).softmax(1) + x.sum(0) / (number + sink)
    return x


def forgotten() -> None:
    """Be as a process that begins, but for the files."""
    kept_files.write_waiting()
    ENGINE.plans.clear()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("cpu/*.plan"))


def test_the_plan_is_made_once(made: list[Scheduled], tmp_path: Path) -> None:
    first = network().tolist()
    plan = made[-1]
    count = len(made)
    forgotten()
    assert len(files(tmp_path)) == 1
    assert network().tolist() == first and len(made) == count
    ((found, _),) = [each for each in ENGINE.plans.values() if len(each[1]) >= LAYERS]
    assert found is not plan and found.plan.steps == plan.plan.steps
    for name in ("inputs", "outputs", "fresh", "filled", "overwritten", "repeatable", "single"):
        assert getattr(found, name) == getattr(plan, name)


@pytest.mark.parametrize("change", ["numbers", "layers", "kept result"])
def test_another_tape_has_another_plan(made: list[Scheduled], tmp_path: Path, change: str) -> None:
    network().tolist()
    forgotten()
    if change == "kept result":
        # The same kernels, of which somebody asks for more.
        x = network(1)
        (x + network()).tolist()
    else:
        (network(sink=2.5) if change == "numbers" else network(LAYERS + 1)).tolist()
    forgotten()
    # A number is a parameter of its kernel, which a plan does not depend on.
    assert len(files(tmp_path)) == (1 if change == "numbers" else 2)


def test_a_short_tape_is_not_kept(made: list[Scheduled], tmp_path: Path) -> None:
    (torch.arange(24.0, device="cpu") * 2 + 1).tolist()
    forgotten()
    assert made and not files(tmp_path)


def test_a_long_expression_is_written_without_going_deep(tmp_path: Path) -> None:
    x = torch.arange(6.0, device="cpu")
    for _ in range(110):
        x = (x * 1.25).sin()
    result, limit = x.tolist(), sys.getrecursionlimit()
    forgotten()
    (file,) = files(tmp_path)
    nodes, *_ = pickle.loads(zlib.decompress(file.read_bytes()[32:]))
    assert max(node.size for node in nodes) > 100
    x = torch.arange(6.0, device="cpu")
    for _ in range(110):
        x = (x * 1.25).sin()
    assert x.tolist() == result and sys.getrecursionlimit() == limit


def test_another_scheduler_plans_anew(made: list[Scheduled], monkeypatch: pytest.MonkeyPatch) -> None:
    network().tolist()
    forgotten()
    count = len(made)
    monkeypatch.setattr(plans, "_version", lambda kind: "another")
    network().tolist()
    assert len(made) > count


PROGRAM = """
import sys
if sys.argv[1:]:
    import webgpu_torch.as_torch
import webgpu_torch_core as torch
from webgpu_torch_core.files import kept
from webgpu_torch_core.record import plans
count, original = [], plans.schedule
plans.schedule = lambda recorded, *args: count.append(len(recorded)) or original(recorded, *args)
w = torch.linspace(-1, 1, 64, device="cpu").reshape(8, 8).requires_grad_()
x = torch.arange(40.0, device="cpu").reshape(5, 8)
for number in range(30):
    x = (x @ w).softmax(1) + x.mean(0).where(x > 0.5, x) / (number + 1)
x.square().sum().backward()
print(repr(w.grad.tolist()).replace(" ", ""), max(count, default=0))
"""


@pytest.mark.parametrize("replaces", [[False, False], [True, False], [False, True], [True, True]])
def test_the_next_process_schedules_short_tapes_only(tmp_path: Path, replaces: list[bool]) -> None:
    """Whether a process has the classes' names of PyTorch makes no difference."""
    environment = {**os.environ, "WEBGPU_TORCH_CACHE": str(tmp_path)}

    def run(seed: str, drops_in: bool) -> list[str]:
        command = [sys.executable, "-c", PROGRAM, *["as_torch"] * drops_in]
        return subprocess.run(
            command, env={**environment, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.split()

    first, second = map(run, "12", replaces)
    assert first[0] == second[0] and int(first[1]) >= LAYERS > int(second[1])
