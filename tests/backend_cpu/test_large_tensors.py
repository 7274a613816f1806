"""Tensors of more elements than 32 bits count, and reductions that make no copy of what they reduce."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
import webgpu_torch as ours
from webgpu_torch_backend_cpu import compiler, writer
from webgpu_torch_core.record.devices import engine_for

REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum 0": lambda x: x.sum(0),
    "sum -1": lambda x: x.sum(-1),
    "max": lambda x: x.amax(-1),
    "min": lambda x: x.amin(0),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(-1),
    "any": lambda x: (x > 38).any(-1),
    "all": lambda x: (x < 38).all(0),
    "count": lambda x: (x == 1).sum(-1),
    "mean": lambda x: x.float().mean(),
    "norm": lambda x: x.float().norm(dim=-1),
}


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 64 elements count as long, and blocks are of 8."""
    monkeypatch.setattr(compiler, "LONG_ROW", 64)
    monkeypatch.setattr(compiler, "BLOCK_ELEMENTS", 8)
    monkeypatch.setattr(engine_for(ours.device("cpu")).device, "_compiled", {})


@pytest.mark.parametrize("kind", ["uint8", "int64", "float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_rows_in_pieces(name: str, kind: str, short_pieces: None) -> None:
    numbers = numpy.random.default_rng(3)
    for shape in ((1003,), (3, 211), (2, 71, 3), (1, 517), (301, 2)):
        x = torch.from_numpy(numbers.integers(0, 40, shape)).to(getattr(torch, kind))
        found = REDUCTIONS[name](ours.tensor(x.tolist(), dtype=getattr(ours, kind)))
        wanted = REDUCTIONS[name](x)
        assert str(found.dtype) == str(wanted.dtype)
        torch.testing.assert_close(torch.tensor(found.tolist()).to(wanted.dtype), wanted, msg=f"{name} {shape}")


def test_the_first_not_a_number_is_the_greatest(short_pieces: None) -> None:
    row = [1.0, 2.0, 7.0] * 100 + [float("nan")] * 3 + [9.0] * 200
    assert ours.tensor(row).argmax().item() == torch.tensor(row).argmax().item() == 300
    assert ours.tensor(row).argmin().item() == 300


MEASURED = """
import resource, sys
import numpy, webgpu_torch as t
x = t.from_numpy(numpy.ones(2**27, dtype=numpy.uint8))
t.ones(9).sum().item(); (t.ones(9) == 1).sum().item(); t.arange(9, dtype=t.uint8).argmax().item()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = {call}.item()
print(result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("call", ["x.sum()", "(x == 1).sum()", "x.argmax()", "x.max()"])
def test_a_reduction_takes_no_memory_of_the_size_of_its_input(call: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", MEASURED.format(call=call)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(found[0]) == {"x.sum()": 2**27, "(x == 1).sum()": 2**27, "x.argmax()": 0, "x.max()": 1}[call]
    assert int(found[1]) < 32 * 1024, "KiB"


def test_random_tensors_are_drawn_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from webgpu_torch_core.random_streams import streams

    monkeypatch.setattr(streams, "_WORDS_AT_ONCE", 7)
    for library in (torch, ours):
        library.manual_seed(5)
    for size in (1, 6, 7, 8, 100):
        assert ours.rand(size).tolist() == torch.rand(size).tolist()
        assert ours.randint(0, 2**40, (size,)).tolist() == torch.randint(0, 2**40, (size,)).tolist()


@pytest.fixture
def wide_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel computes positions in 64 bits."""
    monkeypatch.setattr(writer, "WIDE_ELEMENTS", 1)
    monkeypatch.setattr(engine_for(ours.device("cpu")).device, "_compiled", {})


def test_wide_positions_give_the_same_elements(wide_positions: None) -> None:
    programs = [
        lambda t, x, i: x[i],
        lambda t, x, i: x[:, i],
        lambda t, x, i: x.flip(0, 1),
        lambda t, x, i: x.roll(3, 1),
        lambda t, x, i: x.index_add(0, i, x[:4]),
        lambda t, x, i: x.gather(1, i.expand(10, 4)),
        lambda t, x, i: x.scatter_add(1, i.expand(10, 4), x),
        lambda t, x, i: x.index_fill(1, i, 9),
        lambda t, x, i: x.take(i * 7),
        lambda t, x, i: x.tril(),
        lambda t, x, i: t.cat([x, x * 2], 1),
        lambda t, x, i: (x.to(t.int32) * 2**20 * 2**14).to(t.int64),
    ]
    for program in programs:
        found = [program(t, t.arange(200).reshape(10, 20), t.tensor([3, 1, 2, 1])).tolist() for t in (torch, ours)]
        assert found[0] == found[1]


@pytest.mark.slow
def test_more_elements_than_32_bits_count() -> None:
    limit = 12 * 2**30
    available = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) * 1024
    if available < limit:
        pytest.skip("needs 12 GiB of memory")
    array = numpy.zeros(2**31 + 5, dtype=numpy.uint8)
    array[5], array[2**31 + 4], array[2**31] = 3, 9, 8
    x = ours.from_numpy(array)
    places = ours.tensor([2**31 + 4, 5])
    assert x[places].tolist() == [9, 3]
    assert x.index_select(0, places).tolist() == ours.take(x, places).tolist() == x.gather(0, places).tolist() == [9, 3]
    assert x.flip(0)[:6].tolist() == [9, 0, 0, 0, 8, 0]
    x[places] = ours.tensor([1, 2], dtype=ours.uint8)
    assert x[2**31 :].tolist() == [8, 0, 0, 0, 1]


@pytest.mark.slow
def test_random_tensors_of_two_to_the_26_elements() -> None:
    ours.manual_seed(0)
    torch.manual_seed(0)
    found, wanted = ours.rand(2**26), torch.rand(2**26)
    assert found[-3:].tolist() == wanted[-3:].tolist()
