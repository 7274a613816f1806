"""Plans of long tapes are kept with their programs: the next process neither schedules nor generates what this one did."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import webgpu_torch_core as torch
from webgpu_torch_backend_wgpu.program import Binding, Pass, Program, Size
from webgpu_torch_core.backend.interface import Step
from webgpu_torch_core.ir.kernels import Kernel
from webgpu_torch_core.record import plans
from webgpu_torch_core.record.devices import engine_for
from webgpu_torch_core.record.runs import Run

PROGRAM = """
import webgpu_torch_core as torch
from webgpu_torch_backend_wgpu.codegen import resizing
from webgpu_torch_core.record import plans
from webgpu_torch_core.record.devices import engine_for
lengths, original = [], plans.schedule
plans.schedule = lambda recorded, *args: lengths.append(len(recorded)) or original(recorded, *args)
compiler = engine_for(torch.device("webgpu")).device.compiler
generated, generate = [], compiler.generate
compiler.generate = lambda kernel, *args: generated.append(kernel) or generate(kernel, *args)
w = torch.linspace(-1, 1, 64, device="webgpu").reshape(8, 8).requires_grad_()
x = torch.arange(40.0, device="webgpu").reshape(5, 8)
w.sum().item(), x.sum().item()
generated.clear()
for number in range(25):
    x = (x @ w).softmax(1) + x.mean(0) * number
x.square().sum().backward()
print(repr(w.grad.tolist()).replace(" ", ""), max(lengths, default=0), len(generated))
"""


@pytest.mark.usefixtures("webgpu")
def test_the_next_process_neither_schedules_nor_generates(tmp_path: Path) -> None:
    environment = {**os.environ, "WEBGPU_TORCH_CACHE": str(tmp_path)}

    def run(seed: str) -> tuple[str, int, int]:
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(
            command, env={**environment, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        result, longest, generated = done.stdout.split()
        return result, int(longest), int(generated)

    first, second = run("1"), run("2")
    assert first[0] == second[0]
    assert first[1] >= 64 > second[1]
    assert first[2] > 0 == second[2]


class Files:
    """Stands for the folder of plans: notes what is asked for and kept."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.kept: list[str] = []

    def has(self, beginning: str) -> bool:
        return True

    def read(self, name: str) -> None:
        self.asked.append(name)

    def write_later(self, made: Callable[[], tuple[str, bytes]]) -> None:
        self.kept.append(made()[0])


def test_plans_of_few_sizes_of_a_sequence_are_kept(webgpu: object, monkeypatch: pytest.MonkeyPatch) -> None:
    files, device = Files(), engine_for(torch.device("webgpu")).device
    monkeypatch.setattr(device, "plan_files", files)
    plans._sizes.clear()

    def step(length: int, turns: int) -> None:
        x = torch.ones(length, device="webgpu")
        for turn in range(turns):
            x = torch.cumsum(x, 0).sin() + turn
        x.sum().item()

    for length in range(2, 2 + 2 * plans.SIZES_KEPT):
        step(length, 12)
    assert len(set(files.kept)) == len(files.kept) == plans.SIZES_KEPT == len(files.asked)
    # Another sequence of operations is another matter.
    step(7, 13)
    assert len(files.kept) == plans.SIZES_KEPT + 1


def test_programs_are_written_whole() -> None:
    pieces = ("let n = ", Size(7, "u32"), ";")
    entry = Pass("name", "let n = 7u;", (1, 2, 3), (Binding("operand", 0, False),), (7,), pieces)
    program = pickle.loads(pickle.dumps(Program((entry,), (64,), 0.5)))
    (found,) = program.passes
    assert program == Program((entry,), (64,), 0.5) and program.seconds == 0.5
    for name in ("pieces", "skeleton", "literals", "patience", *Pass.fields):
        assert getattr(found, name) == getattr(entry, name)


def test_a_device_hears_of_the_first_kernels_of_a_long_tape(webgpu: object, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_for(torch.device("webgpu"))
    expected: list[list[Kernel]] = []
    ran: list[Kernel] = []
    monkeypatch.setattr(engine.device, "plan_files", Files())
    monkeypatch.setattr(engine.device, "expect", expected.append)
    advance = engine.device.advance

    def noting(run: Run) -> None:
        ran.extend(each.kernel for each in run.plan.steps if isinstance(each, Step))
        advance(run)

    monkeypatch.setattr(engine.device, "advance", noting)
    plans._sizes.clear()

    def step(first: int) -> None:
        kept = [torch.relu(torch.full((first + each, 3), -2.0, device="webgpu") * 2).sum(0) for each in range(40)]
        assert kept[-1].tolist() == [0.0] * 3

    def network(layers: int) -> None:
        x = torch.ones(3, 5, device="webgpu")
        for layer in range(layers):
            x = (x @ torch.ones(5, 5, device="webgpu")).softmax(1) + layer
        x.tolist()

    step(5)
    (found,) = expected
    assert set(found) <= set(ran) and plans.SOME <= len(found) < len(ran) / 2
    # Of other sizes of the same operations most pipelines are there.
    step(70)
    assert len(expected) == 1
    ran.clear()
    # Of one that hangs together its ends are, where one kernel each may differ.
    network(60)
    assert len(set(expected[1]) - set(ran)) <= 2 < len(expected[1]) < len(ran) / 2
