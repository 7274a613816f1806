"""Groups of processes: one beside PyTorch's own of one, and several through MPI where it is installed."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import webgpu_torch as ours

PROGRAM = Path(__file__).with_name("distributed_program.py")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of one process in both libraries."""
    for name, library in (("theirs", torch), ("ours", ours)):
        library.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / name}", rank=0, world_size=1)
    yield
    for library in (torch, ours):
        if library.distributed.is_initialized():
            library.distributed.destroy_process_group()


def _writes(call: Callable[[Any, Any], object]) -> Callable[[Any], object]:
    def result(t: Any) -> object:
        x = t.tensor([1.0, 2.0, 3.0])
        call(t.distributed, x)
        return x.tolist()

    return result


def _into(call: Callable[[Any, Any, list[Any]], object], count: int = 1) -> Callable[[Any], object]:
    def result(t: Any) -> object:
        out = [t.zeros(3) for _ in range(count)]
        call(t.distributed, t.tensor([1.0, 2.0, 3.0]), out)
        return [each.tolist() for each in out]

    return result


def _objects(call: Callable[[Any, list[Any]], object]) -> Callable[[Any], object]:
    def result(t: Any) -> object:
        found: list[Any] = [None]
        call(t.distributed, found)
        return found

    return result


CALLS: dict[str, Callable[[Any], object]] = {
    **{
        f"all_reduce {name}": _writes(lambda d, x, name=name: d.all_reduce(x, getattr(d.ReduceOp, name)))
        for name in ("SUM", "PRODUCT", "MIN", "MAX")
    },
    "bits of floats": _writes(lambda d, x: d.all_reduce(x, d.ReduceOp.BAND)),
    "asynchronous": _writes(lambda d, x: d.all_reduce(x, async_op=True).wait()),
    "no tensor": lambda t: t.distributed.all_reduce([1.0]),
    "complex": lambda t: t.distributed.all_reduce(t.tensor([1j]), t.distributed.ReduceOp.MAX),
    "reduce": _writes(lambda d, x: d.reduce(x, 0)),
    "broadcast": _writes(lambda d, x: d.broadcast(x, src=0)),
    "broadcast from nobody": _writes(lambda d, x: d.broadcast(x)),
    "broadcast from a stranger": _writes(lambda d, x: d.broadcast(x, src=3)),
    "all_gather": _into(lambda d, x, out: d.all_gather(out, x)),
    "all_gather_into_tensor": _into(lambda d, x, out: d.all_gather_into_tensor(out[0], x)),
    "gather": _into(lambda d, x, out: d.gather(x, out, dst=0)),
    "gather nowhere": _into(lambda d, x, out: d.gather(x, dst=0)),
    "scatter": _into(lambda d, x, out: d.scatter(out[0], [x], src=0)),
    "scatter nothing": _into(lambda d, x, out: d.scatter(out[0], src=0)),
    "reduce_scatter_tensor": _into(lambda d, x, out: d.reduce_scatter_tensor(out[0], x)),
    "all_to_all_single": _into(lambda d, x, out: d.all_to_all_single(out[0], x)),
    "all_gather_object": _objects(lambda d, found: d.all_gather_object(found, {"a": 1})),
    "gather_object": _objects(lambda d, found: d.gather_object("b", found, dst=0)),
    "scatter_object_list": _objects(lambda d, found: d.scatter_object_list(found, ["c"], src=0)),
    "send": _writes(lambda d, x: d.send(x, 0)),
    "recv": _writes(lambda d, x: d.recv(x, 0)),
    "barrier": lambda t: t.distributed.barrier(),
    "places": lambda t: (
        t.distributed.get_rank(), t.distributed.get_world_size(), t.distributed.get_backend(), t.distributed.is_initialized(),
        t.distributed.get_process_group_ranks(t.distributed.group.WORLD),
    ),
    "group": lambda t: t.distributed.get_world_size(t.distributed.new_group([0])),
    "group of strangers": lambda t: t.distributed.new_group([0, 1]),
    "twice": lambda t: t.distributed.init_process_group("gloo", rank=0, world_size=1, store=t.distributed.HashStore()),
    "sampler": lambda t: list(t.utils.data.DistributedSampler(range(4), shuffle=False)),
    "wrapped nothing": lambda t: t.nn.parallel.DistributedDataParallel(t.nn.ReLU()),
    "wrapped": lambda t: list(t.nn.parallel.DistributedDataParallel(t.nn.Linear(2, 1)).state_dict()),
}  # fmt: skip


def outcome(function: Callable[[Any], object], library: Any) -> object:
    try:
        return function(library)
    except Exception as error:  # noqa: BLE001 - whatever PyTorch raises is what is expected
        return type(error).__name__


@pytest.mark.filterwarnings("ignore")
def test_one_process(alone: None) -> None:
    found = {name: (outcome(call, ours), outcome(call, torch)) for name, call in CALLS.items()}
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_the_environment(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}.items():
        monkeypatch.setenv(name, value)
    ours.distributed.init_process_group()
    assert ours.distributed.get_world_size() == 1
    ours.distributed.destroy_process_group()
    monkeypatch.delenv(missing)
    with pytest.raises(ValueError, match=f"environment variable {missing} expected"):
        ours.distributed.init_process_group()


def test_stores(tmp_path: Path) -> None:
    def use(t: Any, store: Any) -> object:
        store.set("a", "1")
        t.distributed.PrefixStore("p", store).set("b", "2")
        found = [store.get("a"), store.get("p/b"), store.add("n", 3), store.add("n", 4), store.check(["a", "b"])]
        found.append(store.compare_set("a", "1", "5"))
        store.set_timeout(datetime.timedelta(milliseconds=20))
        with pytest.raises(RuntimeError):
            store.get("missing")
        return [*found, store.get("a"), store.delete_key("a"), store.check(["a"])]

    for kind in ("HashStore", "FileStore"):
        arguments = lambda name: (str(tmp_path / name), 1) if kind == "FileStore" else ()  # noqa: B023, E731
        mine, theirs = (use(t, getattr(t.distributed, kind)(*arguments(t.__name__))) for t in (ours, torch))
        assert mine == theirs


def test_sharded_modules_of_one(alone: None, tmp_path: Path) -> None:
    fsdp = ours.distributed.fsdp
    model = fsdp.FullyShardedDataParallel(ours.nn.Sequential(ours.nn.Linear(3, 2)))
    optimizer = ours.optim.Adam(model.parameters())
    model(ours.ones(1, 3)).sum().backward()
    optimizer.step()
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    by_name = model.optim_state_dict(model, optimizer)
    assert list(by_name["state"]) == ["0.weight", "0.bias"]
    optimizer.load_state_dict(model.optim_state_dict_to_load(model, optimizer, by_name))
    wanted = model.module[0].weight.detach().clone()
    ours.distributed.checkpoint.save({"model": model, "optimizer": optimizer, "step": 7}, checkpoint_id=tmp_path)
    with ours.no_grad():
        model.module[0].weight.zero_()
    state = {"model": model, "step": 0}
    ours.distributed.checkpoint.load(state, checkpoint_id=tmp_path)
    assert ours.equal(model.module[0].weight, wanted) and state["step"] == 7
    with pytest.raises(RuntimeError, match="Missing key"):
        ours.distributed.checkpoint.load({"other": 1}, checkpoint_id=tmp_path)


def test_several_need_mpi(tmp_path: Path) -> None:
    ours.distributed.init_process_group("fake", rank=1, world_size=4)
    parts = [ours.zeros(1) for _ in range(4)]
    ours.distributed.all_gather(parts, ours.ones(1))
    assert ours.cat(parts).tolist() == [1.0] * 4 and ours.distributed.get_rank() == 1
    with pytest.raises(NotImplementedError, match="4 processes"):
        ours.distributed.fsdp.FullyShardedDataParallel(ours.nn.Linear(1, 1))
    ours.distributed.destroy_process_group()
    with pytest.raises(RuntimeError, match="mpiexec"):
        ours.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=2)


def test_launched(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, webgpu_torch.distributed as d\nd.init_process_group()\nprint(d.get_rank(), d.get_world_size(), sys.argv[1])\n"
    )
    command = [
        sys.executable,
        "-m",
        "webgpu_torch.distributed.run",
        "--standalone",
        "--nproc-per-node=1",
        str(script),
        "--x",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["0", "1", "--x"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_several_processes(count: int) -> None:
    """Every collective, and training that equals one process with the whole batch; see the program."""
    pytest.importorskip("mpi4py")
    launcher = shutil.which("mpiexec") or shutil.which("mpiexec", path=os.path.dirname(sys.executable))
    if launcher is None:
        pytest.skip("there is no mpiexec")
    ran = subprocess.run(
        [launcher, "-n", str(count), sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0 and f"{count} processes agree" in ran.stderr, ran.stderr


def test_members_of_reductions_have_pytorchs_class() -> None:
    for library in (ours, torch):
        operations = library.distributed.ReduceOp
        assert isinstance(operations.SUM, operations.RedOpType)
        assert operations.RedOpType.MAX == operations.MAX
