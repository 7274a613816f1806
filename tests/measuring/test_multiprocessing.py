"""``torch.multiprocessing``: processes started and ended as PyTorch does, and tensors sent between them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.multiprocessing as theirs
import webgpu_torch
import webgpu_torch.multiprocessing as ours

#: what both libraries are to print alike
PROGRAM = """
import os, signal, sys, time
if sys.argv[1] == "ours":
    import webgpu_torch as torch
    import webgpu_torch.multiprocessing as mp
else:
    import torch
    import torch.multiprocessing as mp

def send(i, queue, x): queue.put((i, x * i))
def fails(i):
    if i == 1:
        raise ValueError("no luck")
    time.sleep(30)
def leaves(i): os._exit(3 + i)
def dies(i): os.kill(os.getpid(), signal.SIGTERM)

def tell(fn, nprocs):
    try:
        mp.start_processes(fn, nprocs=nprocs, start_method="fork")
    except mp.ProcessRaisedException as error:
        lines = str(error).splitlines()
        print(type(error).__name__, error.error_index, error.error_pid > 0, lines[2], lines[-1])
    except mp.ProcessExitedException as error:
        print(type(error).__name__, error.error_index, error.exit_code, error.signal_name, error)

if __name__ == "__main__":
    # So that what a process has sent outlives it in PyTorch, too.
    mp.set_sharing_strategy("file_system")
    queue = mp.get_context("fork").SimpleQueue()
    context = mp.start_processes(send, (queue, torch.arange(3)), nprocs=2, join=False, start_method="fork")
    print(len(context.pids()), sorted((i, x.tolist()) for i, x in (queue.get(), queue.get())))
    while not context.join(timeout=20):
        pass
    print(context.join(), [each.exitcode for each in context.processes])
    tell(fails, 2)
    tell(leaves, 1)
    tell(dies, 1)
    print(mp.start_processes(time.sleep, (), nprocs=2, start_method="fork"))
"""


def run(path: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(
        [sys.executable, str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_end_as_pytorchs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = run(program, "ours")
    assert found == run(program, "torch")
    assert found.splitlines()[0] == "2 [(0, [0, 0, 0]), (1, [0, 1, 2])]"
    assert "ValueError: no luck" in found and "terminated with signal SIGTERM" in found


def test_spawned_processes_get_and_send_tensors(tmp_path: Path, device: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "import webgpu_torch as torch\n"
        "import webgpu_torch.multiprocessing as mp\n"
        "def work(i, queue, model, x):\n"
        "    queue.put((i, x.device.type, model(x).tolist(), (x + i)))\n"
        "if __name__ == '__main__':\n"
        "    model = torch.nn.Linear(2, 1).to(sys.argv[1])\n"
        "    x = torch.ones(2, device=sys.argv[1])\n"
        "    queue = mp.get_context('spawn').SimpleQueue()\n"
        "    mp.spawn(work, (queue, model, x), nprocs=1)\n"
        "    i, place, answer, sent = queue.get()\n"
        "    print(i, place, answer == model(x).tolist(), sent.device.type, sent.tolist())\n"
    )
    assert run(program, device).split() == ["0", device, "True", device, "[1.0,", "1.0]"]


def test_the_rest_is_pythons() -> None:
    assert set(theirs.__all__) == set(ours.__all__)
    for name in multiprocessing.__all__:
        assert getattr(ours, name) == getattr(multiprocessing, name)
    assert ours.get_context("spawn") is multiprocessing.get_context("spawn")


def test_sharing_strategies() -> None:
    assert ours.get_all_sharing_strategies() == theirs.get_all_sharing_strategies()
    before = ours.get_sharing_strategy()
    assert before == theirs.get_sharing_strategy()
    for name in ours.get_all_sharing_strategies():
        ours.set_sharing_strategy(name)
        assert ours.get_sharing_strategy() == name
    ours.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="invalid sharing strategy 'cloud', expected one of"):
        ours.set_sharing_strategy("cloud")
    assert webgpu_torch.ones(2).share_memory_().is_shared() is False


@pytest.mark.parametrize("library", [theirs, ours], ids=["torch", "ours"])
def test_exceptions_can_be_sent(library: Any) -> None:
    first = pickle.loads(pickle.dumps(library.ProcessRaisedException("message", 1, 2)))
    assert (str(first), first.msg, first.error_index, first.error_pid) == ("message", "message", 1, 2)
    second = pickle.loads(pickle.dumps(library.ProcessExitedException("message", 1, 2, -9, "SIGKILL")))
    assert (second.exit_code, second.signal_name, second.error_pid) == (-9, "SIGKILL", 2)
    assert isinstance(second, library.ProcessException if library is ours else Exception)


@pytest.mark.parametrize("library", [theirs, ours], ids=["torch", "ours"])
def test_spawn_only_spawns(library: Any) -> None:
    with pytest.warns(FutureWarning, match=r"only supports start_method=spawn \(got: fork\)"):
        library.spawn(print, nprocs=0, start_method="fork")
    with pytest.warns(UserWarning, match="SpawnContext is renamed to ProcessContext"):
        assert library.SpawnContext([], []).join() is True


def test_traces_of_errors_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    context = ours.start_processes(print, nprocs=0, join=False)
    assert len(list(tmp_path.iterdir())) == 1
    del context
    assert not list(tmp_path.iterdir())
