"""Data sets, samplers and loaders against PyTorch's: the same seed gives the same batches, with workers and without."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections import OrderedDict, namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch_core
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_nn.utils import data as our_data
from webgpu_torch_nn.utils.data import transport

ours = SimpleNamespace(**{name: getattr(webgpu_torch_core, name) for name in dir(webgpu_torch_core)})
ours.utils = SimpleNamespace(data=our_data)
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # From Python 3.12 on, for a process with threads; that it works is what is tested here.
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]
# Each pass starts its workers anew, and a process with all of the tests' libraries takes its time to be forked.
FORKED = {"num_workers": 2, "multiprocessing_context": "fork", "times": 1}
WORKERS = [pytest.param({}, id="here"), pytest.param(FORKED, id="fork")]
Point = namedtuple("Point", ["x", "y"])


def plain(value: Any) -> Any:
    """Return a batch as Python values that carry shapes and types along."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return str(value.dtype).split(".")[-1], tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__name__, [plain(each) for each in value]
    return value


def passes(lib: Any, dataset: Any, times: int = 2, seed: int = 3, **options: Any) -> Any:
    """Return the batches of several passes over a data set, and what the default generator gives afterwards."""
    lib.manual_seed(seed)
    loader = lib.utils.data.DataLoader(dataset, **options)
    return [[plain(batch) for batch in loader] for _ in range(times)], lib.rand(2).tolist()


def pairs(lib: Any, count: int = 23) -> Any:
    return lib.utils.data.TensorDataset(lib.arange(2 * count).reshape(count, 2), lib.arange(count))


def numbers(lib: Any, count: int = 10) -> Any:
    class Numbers(lib.utils.data.Dataset):
        def __len__(self) -> int:
            return count

        def __getitem__(self, index: int) -> Any:
            return {"index": index, "random": lib.rand(2), "python": random.random(), "numpy": numpy.random.rand()}

    return Numbers()


def stream(lib: Any, count: int = 11, shards: bool = True, length: int | None = None) -> Any:
    class Stream(lib.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            info = lib.utils.data.get_worker_info()
            if info is None or not shards:
                return iter(range(count))
            return iter(range(info.id, count, info.num_workers))

    if length is not None:
        Stream.__len__ = lambda self: length
    return Stream()


@pytest.mark.slow_on("{'batch_size': 4}", "{'batch_size': 5, 'shuffle': True}", "{'batch_size': None}")
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True, "shuffle": True},
        {"batch_size": 5, "shuffle": True},
        {"batch_size": None, "shuffle": True},
        {"batch_size": None},
        {"batch_sampler": [[3, 1], [2], [0, -1, 5]]},
        {"sampler": [5, 3, 3], "batch_size": 2},
    ],
    ids=str,
)
def test_batches(workers: dict[str, Any], options: dict[str, Any]) -> None:
    assert passes(ours, pairs(ours), **options, **workers) == passes(torch, pairs(torch), **options, **workers)


@pytest.mark.parametrize("workers", WORKERS)
def test_samplers(workers: dict[str, Any]) -> None:
    def batches(lib: Any, make: Any) -> Any:
        lib.manual_seed(1)
        return passes(lib, pairs(lib), sampler=make(lib.utils.data), batch_size=4, **workers)

    weights = [0.1 * index for index in range(1, 24)]
    makers = (
        lambda data: data.RandomSampler(range(23), replacement=True, num_samples=70),
        lambda data: data.RandomSampler(range(23), replacement=True, num_samples=64),
        lambda data: data.RandomSampler(range(5), num_samples=12),
        lambda data: data.SubsetRandomSampler([2, 4, 6, 8, 10]),
        lambda data: data.WeightedRandomSampler(weights, 9),
        lambda data: data.WeightedRandomSampler(weights, 9, replacement=False),
        lambda data: data.SequentialSampler(range(7)),
        lambda data: data.DistributedSampler(range(23), 4, 3, seed=5),
        lambda data: data.DistributedSampler(range(23), 4, 1, drop_last=True),
        lambda data: data.DistributedSampler(range(3), 7, 6, shuffle=False),
    )
    # Starting processes takes time, and the samplers run in this one anyway.
    for make in makers[::5] if workers else makers:
        assert batches(ours, make) == batches(torch, make)


@pytest.mark.parametrize("workers", WORKERS)
def test_an_own_generator_leaves_the_default_one_alone(workers: dict[str, Any]) -> None:
    def batches(lib: Any) -> Any:
        generator = lib.Generator().manual_seed(8)
        found = passes(lib, pairs(lib), shuffle=True, batch_size=6, generator=generator, **workers)
        return found, lib.rand(3, generator=generator).tolist()

    assert batches(ours) == batches(torch)


def test_random_streams_of_workers() -> None:
    options = {"batch_size": 3, "shuffle": True, "num_workers": 2, "multiprocessing_context": "fork"}
    expected = passes(torch, numbers(torch), **options)
    assert passes(ours, numbers(ours), **options) == expected
    # Both passes start workers, and each draws a new base seed.
    assert expected[0][0] != expected[0][1]


def test_persistent_workers() -> None:
    options = {"batch_size": 3, "num_workers": 2, "persistent_workers": True, "multiprocessing_context": "fork"}
    assert passes(ours, numbers(ours), times=3, **options) == passes(torch, numbers(torch), times=3, **options)
    assert passes(ours, stream(ours), times=3, **options) == passes(torch, stream(torch), times=3, **options)


def test_persistent_workers_after_a_pass_that_was_left() -> None:
    options = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "fork"}
    loader = our_data.DataLoader(pairs(ours, 12), batch_size=2, **options)
    next(iter(loader))
    pids = {worker.process.pid for worker in loader._iterator._workers}
    assert [batch[1].tolist() for batch in loader] == [[i, i + 1] for i in range(0, 12, 2)]
    assert {worker.process.pid for worker in loader._iterator._workers} == pids


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("options", [{"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}])
@pytest.mark.parametrize("shards", [True, False])
def test_streams(workers: dict[str, Any], options: dict[str, Any], shards: bool) -> None:
    found = passes(ours, stream(ours, shards=shards), **options, **workers)
    assert found == passes(torch, stream(torch, shards=shards), **options, **workers)


def test_length_of_streams() -> None:
    def count(lib: Any, **options: Any) -> int:
        return len(lib.utils.data.DataLoader(stream(lib, length=10), **options))

    for options in ({"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}):
        assert count(ours, **options) == count(torch, **options)
    loader = our_data.DataLoader(stream(ours, length=5), batch_size=None)
    assert len(loader) == 5
    with pytest.warns(UserWarning, match="was reported to be 5"):
        list(loader)


@pytest.mark.parametrize("workers", WORKERS)
def test_in_a_worker(workers: dict[str, Any]) -> None:
    def seen(lib: Any) -> Any:
        class Told(lib.utils.data.Dataset):
            offset = 0

            def __len__(self) -> int:
                return 6

            def __getitem__(self, index: int) -> Any:
                info = lib.utils.data.get_worker_info()
                if info is None:
                    return index, self.offset
                return index, self.offset, info.id, info.num_workers, info.seed, info.dataset is self

        dataset = Told()

        def start(worker: int) -> None:
            lib.utils.data.get_worker_info().dataset.offset = 100 * (worker + 1)

        options = {"worker_init_fn": start} if workers else {}
        return passes(lib, dataset, collate_fn=list, batch_size=2, **options, **workers)

    assert seen(ours) == seen(torch)
    assert our_data.get_worker_info() is None


@pytest.mark.parametrize("kind", [ValueError, KeyError, IndexError, UnicodeDecodeError])
def test_exceptions_of_workers(kind: type[Exception]) -> None:
    class Fails(our_data.Dataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            if index == 2:
                raise kind("utf8", b"x", 0, 1, "why") if kind is UnicodeDecodeError else kind("no such sample")
            return index

    loader = iter(our_data.DataLoader(Fails(), num_workers=2, multiprocessing_context="fork"))
    assert [next(loader).item(), next(loader).item()] == [0, 1]
    expected = RuntimeError if kind is UnicodeDecodeError else kind
    with pytest.raises(expected) as caught:
        next(loader)
    assert type(caught.value) is expected
    text = str(caught.value)
    assert text.startswith(f"Caught {kind.__name__} in DataLoader worker process 0.\nOriginal Traceback (most recent")
    assert "in __getitem__" in text and ("no such sample" in text or "why" in text)
    # The pass goes on.
    assert next(loader).item() == 3


def test_exceptions_at_a_workers_start() -> None:
    def refuse(worker: int) -> None:
        raise OSError(f"worker {worker} has no file")

    for options in ({}, {"batch_size": None}):
        with pytest.raises(OSError, match="worker 0 has no file"):
            list(
                our_data.DataLoader(
                    pairs(ours), num_workers=1, worker_init_fn=refuse, multiprocessing_context="fork", **options
                )
            )


def test_what_does_not_pickle_is_an_exception() -> None:
    loader = our_data.DataLoader(
        pairs(ours), num_workers=1, collate_fn=lambda batch: lambda: batch, multiprocessing_context="fork"
    )
    with pytest.raises(Exception, match="in DataLoader worker process 0"):
        next(iter(loader))


@pytest.mark.parametrize(("end", "why"), [("kill", "is killed by signal: Killed"), ("exit", None)])
def test_a_worker_that_dies_is_noticed(end: str, why: str | None) -> None:
    class Dies(our_data.Dataset):
        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> int:
            if index == 5:
                os.kill(os.getpid(), 9) if end == "kill" else os._exit(3)
            return index

    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly") as caught:
        list(our_data.DataLoader(Dies(), num_workers=2, multiprocessing_context="fork"))
    assert (why in str(caught.value.__cause__)) if why else caught.value.__cause__ is None
    assert time.monotonic() - started < 4


class Slow(our_data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        time.sleep(1.0 if index == 0 else 0)
        return index


def test_timeout() -> None:
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.2 seconds"):
        next(iter(our_data.DataLoader(Slow(), num_workers=1, timeout=0.2, multiprocessing_context="fork")))


def test_order() -> None:
    options = {"num_workers": 2, "multiprocessing_context": "fork"}
    assert [batch.item() for batch in our_data.DataLoader(Slow(), **options)] == [0, 1, 2, 3]
    found = [batch.item() for batch in our_data.DataLoader(Slow(), in_order=False, **options)]
    assert found[0] == 1 and sorted(found) == [0, 1, 2, 3]


class Squares(our_data.Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return webgpu_torch_core.full((2,), float(index)) ** 2


@pytest.mark.slow_on("cpu-spawn")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_after_the_gpu_was_used(method: str, device: str) -> None:
    image = webgpu_torch_core.rand(64, 64, device=device)
    before = (image @ image).sum().item()
    loader = our_data.DataLoader(
        our_data.TensorDataset(webgpu_torch_core.arange(6.0)), 2, num_workers=2, multiprocessing_context=method
    )
    for _ in range(2 if method == "fork" else 1):
        batches = [batch for (batch,) in loader]
        assert [each.device.type for each in batches] == ["cpu"] * 3
        assert [each.to(device).tolist() for each in batches] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert (image @ image).sum().item() == before


def test_workers_compute_on_the_host_whatever_the_default_device(device: str) -> None:
    webgpu_torch_core.set_default_device(device)
    try:
        for options in ({}, {"num_workers": 1, "multiprocessing_context": "fork"}):
            loader = our_data.DataLoader(Squares(), 3, shuffle=True, **options)
            assert sorted(value for batch in loader for value in batch[:, 0].tolist()) == [0, 1, 4, 9, 16, 25]
    finally:
        webgpu_torch_core.set_default_device(None)


def test_forked_workers_refuse_the_gpu() -> None:
    if not webgpu_torch_core.api.webgpu.is_available():
        pytest.skip("no WebGPU device")
    image = webgpu_torch_core.ones(4, device="webgpu")

    class OnDevice(Squares):
        def __getitem__(self, index: int) -> Any:
            return (image * index).sum().item()

    with pytest.raises(RuntimeError, match="must use the 'spawn' start method"):
        list(our_data.DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork"))


@settings(deadline=None, max_examples=30)
@given(
    kind=st.sampled_from(["float32", "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "complex64"]),
    shape=st.lists(st.integers(0, 4), max_size=3),
    view=st.sampled_from(["whole", "transposed", "sliced", "expanded"]),
    wants_gradient=st.booleans(),
)
def test_everything_travels(kind: str, shape: list[int], view: str, wants_gradient: bool) -> None:
    tensor = webgpu_torch_core.arange(math.prod(shape)).reshape(shape).to(getattr(webgpu_torch_core, kind))
    if view == "transposed" and len(shape) > 1:
        tensor = tensor.transpose(0, 1)
    elif view == "sliced" and shape:
        tensor = tensor[1:]
    elif view == "expanded":
        tensor = tensor.expand(3, *tensor.shape)
    tensor.requires_grad_(wants_gradient and tensor.is_floating_point())
    array = numpy.arange(12.0).reshape(3, 4)
    here, there = multiprocessing.Pipe()
    transport.send(here, transport.dump([tensor, {"array": array, "view": array[:, ::2]}, "text", None]))
    found, arrays, *rest = transport.receive(there)
    assert plain(found) == plain(tensor) and found.requires_grad == tensor.requires_grad
    assert plain(arrays) == plain({"array": array, "view": array[:, ::2]}) and rest == ["text", None]
    assert arrays["array"].flags.writeable
    with pytest.raises(EOFError):
        here.close()
        transport.receive(there)


def test_a_pass_in_a_cycle_ends_its_workers_through_its_own_pipes() -> None:
    # The collector takes what is oldest first: the pipe's end has closed itself when the pass's turn comes.
    class WithOlderPipes(type(multiprocessing.get_context("fork"))):  # type: ignore[misc]
        pipes = [multiprocessing.Pipe()]

        def Pipe(self, duplex: bool = True) -> Any:  # noqa: N802
            return self.pipes.pop()

    gc.collect()
    dataset = our_data.TensorDataset(webgpu_torch_core.arange(4))
    loader = our_data.DataLoader(dataset, num_workers=1, multiprocessing_context=WithOlderPipes())
    batches: Any = iter(loader)
    next(batches)
    process, batches.itself = batches._workers[0].process, batches
    raised = []
    previous, sys.unraisablehook = sys.unraisablehook, raised.append
    try:
        del batches
        gc.collect()
    finally:
        sys.unraisablehook = previous
    process.join(10)
    assert not raised and process.exitcode == 0


@pytest.mark.parametrize("end", ["", "raise ValueError", "os.kill(os.getpid(), 9)"])
def test_no_worker_outlives_its_parent(end: str) -> None:
    program = (
        "import os, webgpu_torch_core as torch\n"
        "from webgpu_torch_nn.utils.data import DataLoader, TensorDataset\n"
        "dataset = TensorDataset(torch.arange(4000))\n"
        "batches = iter(DataLoader(dataset, num_workers=2, multiprocessing_context='fork'))\n"
        "next(batches)\n"
        "print(*(worker.process.pid for worker in batches._workers), flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program + end], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == {"": 0, "raise ValueError": 1}.get(end, -9)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 5
    while any(map(_runs, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_large_batches_and_indices_do_not_block() -> None:
    class Large(our_data.Dataset):
        def __len__(self) -> int:
            return 1 << 16

        def __getitems__(self, indices: list[int]) -> Any:
            return [numpy.asarray(indices)]

    sizes = {"batch_size": 1 << 14, "num_workers": 2, "prefetch_factor": 3, "multiprocessing_context": "fork"}
    loader = our_data.DataLoader(Large(), **sizes)
    assert [batch.sum().item() for batch in loader] == [sum(range(i << 14, (i + 1) << 14)) for i in range(4)]
    # Left in the middle.
    next(iter(loader))


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        [True, False],
        [1.5, 2],
        ["a", "b"],
        [b"a", b"b"],
        [(1, 2.0), (3, 4.0)],
        [[1, "x"], [2, "y"]],
        [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}],
        [OrderedDict(a=1), OrderedDict(a=2)],
        [Point(1, 2.0), Point(3, 4.0)],
        [numpy.arange(3), numpy.arange(3)],
        [numpy.float32(1), numpy.float32(2)],
        [numpy.int8(1), numpy.int8(2)],
        [numpy.float64(1), numpy.float64(2)],
        [numpy.array(3.0), numpy.array(4.0)],
        [range(2), range(2)],
    ],
    ids=str,
)
def test_collate_and_convert(batch: list[Any]) -> None:
    assert plain(our_data.default_collate(batch)) == plain(torch.utils.data.default_collate(batch))
    assert plain(our_data.default_convert(batch)) == plain(torch.utils.data.default_convert(batch))


@pytest.mark.parametrize(
    "batch",
    [[None], [object()], [[1], [1, 2]], [numpy.array(["a"])], [{"a": 1}, {}]],
    ids=["none", "object", "ragged", "words", "keys"],
)
def test_what_cannot_be_collated(batch: list[Any]) -> None:
    with pytest.raises((TypeError, RuntimeError, KeyError)) as expected:
        torch.utils.data.default_collate(batch)
    with pytest.raises(type(expected.value)) as caught:
        our_data.default_collate(batch)
    if expected.type is not TypeError:
        assert str(caught.value) == str(expected.value)


@settings(deadline=None, max_examples=40)
@given(
    total=st.integers(1, 60),
    shares=st.one_of(
        st.lists(st.integers(0, 9), min_size=1, max_size=4), st.sampled_from([[0.5, 0.5], [0.1, 0.2, 0.7]])
    ),
    seed=st.integers(0, 2**40),
)
@pytest.mark.filterwarnings("ignore:Length of split")
def test_random_split(total: int, shares: list[Any], seed: int) -> None:
    def split(lib: Any) -> Any:
        lib.manual_seed(seed)
        generator = lib.Generator().manual_seed(seed + 1)
        found = (
            lib.utils.data.random_split(range(total), lengths),
            lib.utils.data.random_split(range(total), lengths, generator),
        )
        return [[list(each.indices) for each in parts] for parts in found], lib.rand(1).tolist()

    lengths = shares if isinstance(shares[0], float) else [*shares, max(total - sum(shares), 0)]
    if sum(lengths) not in (total, 1):
        with pytest.raises(ValueError, match="Sum of input lengths"):
            our_data.random_split(range(total), lengths)
        return
    assert split(ours) == split(torch)


def test_data_sets() -> None:
    def build(lib: Any) -> Any:
        data = lib.utils.data
        first, second = pairs(lib, 4), pairs(lib, 4)
        stacked, named = data.StackDataset(first, second), data.StackDataset(one=first, two=range(4))
        joined = first + second
        chain = data.ChainDataset([stream(lib, 3, length=3), stream(lib, 2, length=2)])
        subset = data.Subset(named, [3, 1])
        return [
            [plain(stacked[1]), plain(named[2]), len(stacked), plain(named.__getitems__([0, 3]))],
            [plain(joined[5]), plain(joined[-1]), len(joined), joined.cumulative_sizes],
            [list(chain), len(chain)],
            [plain(subset[0]), plain(subset.__getitems__([1, 0])), len(subset)],
            plain(first[lib.tensor([0, 2])]),
        ]

    assert build(ours) == build(torch)


@pytest.mark.parametrize(
    "use",
    [
        lambda lib, data: data.TensorDataset(lib.ones(2), lib.ones(3)),
        lambda lib, data: data.StackDataset(),
        lambda lib, data: data.StackDataset(range(2), range(3)),
        lambda lib, data: data.StackDataset(range(2), a=range(2)),
        lambda lib, data: data.ConcatDataset([]),
        lambda lib, data: data.ConcatDataset([stream(lib)]),
        lambda lib, data: data.ConcatDataset([range(2)])[-3],
        lambda lib, data: list(data.ChainDataset([range(2)])),
        lambda lib, data: data.Dataset()[0],
        lambda lib, data: data.random_split(range(4), [0.5, -0.5, 1.0]),
        lambda lib, data: data.random_split(range(4), [3]),
        lambda lib, data: data.RandomSampler([], num_samples=0),
        lambda lib, data: data.RandomSampler([1], replacement=1),
        lambda lib, data: data.WeightedRandomSampler([1.0], 0),
        lambda lib, data: data.WeightedRandomSampler([[1.0]], 1),
        lambda lib, data: data.BatchSampler([1], 0, False),
        lambda lib, data: data.BatchSampler([1], 1, 0),
        lambda lib, data: data.DistributedSampler([1], 2, 2),
        lambda lib, data: data.DataLoader([1], num_workers=-1),
        lambda lib, data: data.DataLoader([1], timeout=-1),
        lambda lib, data: data.DataLoader([1], prefetch_factor=2),
        lambda lib, data: data.DataLoader([1], persistent_workers=True),
        lambda lib, data: data.DataLoader([1], sampler=[0], shuffle=True),
        lambda lib, data: data.DataLoader([1], batch_sampler=[[0]], batch_size=2),
        lambda lib, data: data.DataLoader([1], batch_size=None, drop_last=True),
        lambda lib, data: data.DataLoader([1], batch_size=0),
        lambda lib, data: data.DataLoader(stream(lib), shuffle=True),
        lambda lib, data: data.DataLoader(stream(lib), sampler=[1]),
        lambda lib, data: data.DataLoader([1], multiprocessing_context="fork"),
        lambda lib, data: data.DataLoader([1], num_workers=1, multiprocessing_context="knife"),
        lambda lib, data: data.DataLoader([1], num_workers=1, multiprocessing_context=3),
        lambda lib, data: setattr(data.DataLoader([1]), "batch_size", 3),
    ],
)  # fmt: skip
def test_refusals(use: Any) -> None:
    with pytest.raises((ValueError, TypeError, AssertionError, NotImplementedError)) as expected:
        use(torch, torch.utils.data)
    with pytest.raises(expected.type) as caught:
        use(ours, our_data)
    assert type(caught.value) is type(expected.value)
    assert str(caught.value)[:40] == str(expected.value)[:40]


def test_subset_with_half_an_override() -> None:
    class Half(our_data.Subset):
        def __getitem__(self, idx: Any) -> Any:
            return 2 * self.dataset[idx]

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half([1], [0])


def test_a_joiner_for_another_type() -> None:
    class Picture:
        def __init__(self, value: int) -> None:
            self.value = value

    def join(batch: Any, *, collate_fn_map: Any = None) -> str:
        return "+".join(str(each.value) for each in batch)

    from torch.utils.data._utils import collate as their_collate
    from webgpu_torch.utils.data._utils import collate as our_collate

    found = []
    for module in (our_collate, their_collate):
        module.default_collate_fn_map[Picture] = join
        try:
            batch = module.default_collate([(Picture(1), 2), (Picture(3), 4)])
        finally:
            del module.default_collate_fn_map[Picture]
        found.append(plain(batch))
    assert found[0] == found[1] and found[0][1][0] == "1+3"


def test_the_facade_has_pytorchs_modules() -> None:
    import webgpu_torch

    for name in ("dataset", "sampler", "distributed", "dataloader"):
        own = getattr(webgpu_torch.utils.data, name)
        for each in getattr(getattr(torch.utils.data, name), "__all__", ()):
            if hasattr(our_data, each):
                assert getattr(own, each) is getattr(our_data, each)
    missing = set(torch.utils.data.__all__) - set(our_data.__all__)
    assert all("Pipe" in each or "pipe" in each or "validation" in each or "determinism" in each
               or each in ("DataChunk", "_DatasetKind", "non_deterministic") for each in missing), missing  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(
    count=st.integers(0, 20),
    streams=st.booleans(),
    options=st.fixed_dictionaries(
        {"batch_size": st.sampled_from([None, 1, 2, 3, 7, 30]), "drop_last": st.booleans()},
        optional={"shuffle": st.booleans(), "sampler": st.lists(st.integers(-3, 8), max_size=5)},
    ),
    choice=st.sampled_from([None, "replacement", "subset", "weights"]),
    seed=st.integers(0, 2**62),
)
def test_any_options(count: int, streams: bool, options: dict[str, Any], choice: str | None, seed: int) -> None:
    def outcome(lib: Any) -> Any:
        given = dict(options)
        data = lib.utils.data
        try:
            if choice == "replacement":
                given["sampler"] = data.RandomSampler(range(count), replacement=True, num_samples=seed % 70)
            elif choice == "subset":
                given["sampler"] = data.SubsetRandomSampler(range(0, count, 2))
            elif choice == "weights":
                given["sampler"] = data.WeightedRandomSampler([1.0 + seed % 3] * count, 5, replacement=count < 5)
            return passes(lib, stream(lib, count) if streams else pairs(lib, count), seed=seed, **given)
        except (ValueError, IndexError, RuntimeError) as error:
            return type(error)

    assert outcome(ours) == outcome(torch)
