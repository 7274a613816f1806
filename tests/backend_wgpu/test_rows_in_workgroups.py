"""What a workgroup does with a row in its memory: scatters, selection, sorting, random words shared by neighbours."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from webgpu_torch_backend_wgpu.codegen import VARIANTS, choose
from webgpu_torch_backend_wgpu.codegen.scatter import separate
from webgpu_torch_backend_wgpu.codegen.variants import Variant
from webgpu_torch_core.ir.kernels import Scatter, Sort
from webgpu_torch_core.ir.threefry import threefry4x32


def _moved(tensor: torch.Tensor) -> ours.Tensor:
    return ours.from_numpy(tensor.numpy()).to("webgpu")


def _back(tensor: ours.Tensor) -> torch.Tensor:
    return torch.from_numpy(tensor.cpu().numpy())


@pytest.fixture
def by_rows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let scatters take a workgroup per lane wherever they can; tells which way each one took."""
    used: list[str] = []

    def cheap(each: Variant) -> Variant:
        def emit(kernel: Scatter, capabilities: object, plan: object) -> object:
            used.append(each.name)
            return each.emit(kernel, capabilities, plan)  # pyright: ignore

        cost = (lambda *_: -1.0) if each.name == "a workgroup per lane" else each.cost
        return each._replace(cost=cost, emit=emit)  # pyright: ignore

    monkeypatch.setitem(VARIANTS, Scatter, [cheap(each) for each in VARIANTS[Scatter]])
    return used


@pytest.mark.parametrize(
    ("shape", "entries", "dim", "slots"),
    [
        ((3, 37), (2, 301), 1, 37),
        ((2, 50), (2, 700), 1, 3),
        ((2, 1), (2, 90), 1, 1),
        ((2, 21, 3), (2, 130, 2), 1, 21),
        ((310, 3), (280, 3), 0, 310),
    ],
)
def test_scatter_within_rows(by_rows: list[str], shape: tuple, entries: tuple, dim: int, slots: int) -> None:
    """Sums are bit for bit those of the entries one after another, of long and short lists."""
    chance = torch.Generator().manual_seed(slots)
    base, values = torch.randn(shape, generator=chance), torch.randn(entries, generator=chance)
    index = torch.randint(0, slots, entries, generator=chance)
    found = _back(_moved(base).scatter_add(dim, _moved(index), _moved(values)))
    # PyTorch on the CPU takes the entries of a row in their order.
    assert torch.equal(found, base.scatter_add(dim, index, values))
    assert by_rows[-1] == "a workgroup per lane"
    for reduce in ("amax", "prod"):
        right = base.scatter_reduce(dim, index, values * 0.2 + 1.0, reduce)
        mine = _moved(base).scatter_reduce(dim, _moved(index), _moved(values * 0.2 + 1.0), reduce)
        torch.testing.assert_close(_back(mine), right, rtol=2e-5, atol=1e-6)


def test_scatter_of_a_single_entry() -> None:
    """A kernel without dimensions has a way, too."""
    base, index, values = torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.ones(1)
    assert _back(_moved(base).scatter_add(0, _moved(index), _moved(values))).tolist() == [1.0]
    assert (
        _back(
            _moved(torch.zeros(3, 1)).scatter_add(1, _moved(index.expand(3, 1).contiguous()), _moved(torch.ones(3, 1)))
        ).sum()
        == 3
    )


def test_scatter_of_several_blocks(by_rows: list[str]) -> None:
    """A row whose entries do not fit workgroup memory at once."""
    chance = torch.Generator().manual_seed(1)
    index, values = torch.randint(0, 900, (1, 9000), generator=chance), torch.randn((1, 9000), generator=chance)
    base = torch.zeros(1, 900)
    found = _back(_moved(base).scatter_add(1, _moved(index), _moved(values)))
    assert torch.equal(found, base.scatter_add(1, index, values))
    assert by_rows[-1] == "a workgroup per lane"


@settings(max_examples=4, deadline=None)
@given(length=st.integers(70, 600), seed=st.integers(0, 9), largest=st.booleans(), few=st.booleans())
def test_selection(length: int, seed: int, largest: bool, few: bool) -> None:
    """The first of a row, equal ones by their position, NaN as the greatest."""
    chance = torch.Generator().manual_seed(seed)
    rows = (
        torch.randint(-3, 3, (2, length), generator=chance) / 2 if few else torch.randn((2, length), generator=chance)
    )
    rows[0, seed::11] = math.nan
    rows[1, seed] = -math.inf
    count = length // 5
    found = _moved(rows).topk(count, -1, largest)
    values, places = rows.sort(dim=-1, descending=largest, stable=True)
    assert torch.equal(_back(found.indices), places[:, :count])
    torch.testing.assert_close(_back(found.values), values[:, :count], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("length", [1, 6, 65, 1500])
def test_sorted_blocks(length: int) -> None:
    rows = torch.randint(-9, 9, (3, length), generator=torch.Generator().manual_seed(length)).float()
    found, right = _moved(rows).sort(dim=-1, stable=True), rows.sort(dim=-1, stable=True)
    assert torch.equal(_back(found.indices), right.indices)
    assert torch.equal(_back(found.values), right.values)


@pytest.mark.parametrize("shape", [(32,), (3, 5), (2, 8)])
def test_stream_of_normal_numbers(shape: tuple[int, ...]) -> None:
    """Four elements share a block of random words; two of them a radius, of which one takes the cosine and one the sine."""
    ours.manual_seed(5)
    draw = ours.randn(shape, device="webgpu")
    found = (draw * 1.0 if len(shape) > 1 else draw).flatten().tolist()
    for place, value in enumerate(found):
        first, second = threefry4x32((place // 4, 0, 0, 0), (5, 0, 0, 0))[place & 2 :][:2]
        radius = math.sqrt(-2.0 * math.log(first * 2.0**-32 + 2.0**-33))
        angle = math.pi * (second - 2**32 * (second >> 31)) * 2.0**-32
        right = radius * (math.sin(angle) if place % 2 else (-1) ** (second & 1) * math.cos(angle))
        assert math.isclose(value, right, rel_tol=2e-6, abs_tol=2e-7 * radius), place


def test_choice_of_ways() -> None:
    """Rows that are long beside what is wanted of them are selected from, and not where most is wanted."""
    kernels = {count: _sort_kernel(4096, count) for count in (50, 3000)}
    device = ours.zeros(1, device="webgpu")._storage.value.engine.device
    names = {count: choose(each, device.capabilities)[0].name for count, each in kernels.items()}
    assert names[50] == "the first few, selected"
    assert names[3000] != names[50]


def _sort_kernel(length: int, limit: int) -> Sort:
    from webgpu_torch_core.ir.dtypes import float32
    from webgpu_torch_core.ir.layouts import contiguous_layout
    from webgpu_torch_core.operations.sorting.order import sort_kernel

    return sort_kernel(contiguous_layout((8, length)), 8 * length, float32, True, limit)


def test_rows_added_at_positions_are_sorted_and_reported() -> None:
    """Where rows go is separate from their columns, checks included; sums follow the rows' order."""
    chance = torch.Generator().manual_seed(5)
    base, rows = torch.randn(40, 12, generator=chance), torch.randn(300, 12, generator=chance)
    index = torch.randint(0, 40, (300,), generator=chance)
    index[:60] = 7
    moved = [_moved(each) for each in (base, index, rows)]
    found = moved[0].index_add(0, moved[1], moved[2])
    scatter = next(each for each in found._storage.value.engine.kernels if isinstance(each, Scatter))
    assert separate(scatter.index, len(scatter.lanes)) is not None
    torch.testing.assert_close(_back(found), base.index_add(0, index, rows))
    assert torch.equal(_back(found), _back(moved[0].index_add(0, moved[1], moved[2])))
    index[17] = 40
    with pytest.raises(IndexError):
        moved[0].index_add(0, _moved(index), moved[2]).tolist()
