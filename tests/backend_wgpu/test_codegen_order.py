"""Generated WGSL for scans, sorts and scatters, against the kernels' definition in plain Python and PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from codegen_harness import CORE, TORCH, harness
from contraction_cases import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codegen import EMULATE, STORAGE, check, operand, values
from webgpu_torch_backend_wgpu.codegen import scatter as scatters
from webgpu_torch_backend_wgpu.codegen.variants import VARIANTS
from webgpu_torch_core.ir.dtypes import bool_, compute_dtype, dtype, float32, int32, int64
from webgpu_torch_core.ir.expression import Expression, cast, load, load_at
from webgpu_torch_core.ir.kernels import Output, Scan, Scatter, Sort
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements
from webgpu_torch_core.ir.monoids import monoid

pytestmark = pytest.mark.usefixtures("webgpu")


def scan(kind: str, source: dtype, shape: tuple[int, ...], reverse: bool = False, indices: bool = False) -> Scan:
    wide = compute_dtype(source)
    wide = int64 if source is bool_ else wide
    strides = contiguous_strides(shape)
    numel = number_of_elements(shape)
    result = source if kind.endswith("mum") else wide
    outputs = (Output(result, numel, None),) + ((Output(int64, numel, None),) if indices else ())
    of = source if kind.endswith("mum") else wide
    value = cast(load(0, 0, strides, source), of)
    return Scan(
        (operand(source, numel),), outputs, (), f"cum{kind}", shape, monoid(kind, of), value, reverse, 0, strides
    )


@EMULATE
@pytest.mark.parametrize("kind", ["bool", "uint8", "int16", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 40), (2, 700)], ids=str)
def test_cumulative_sum(kind: str, shape: tuple[int, ...], emulate: bool) -> None:
    own = CORE[TORCH[kind]]
    check(scan("sum", own, shape), [values(own, number_of_elements(shape), 1)], (), emulate)
    check(scan("sum", own, shape, True), [values(own, number_of_elements(shape), 2)], (), emulate)


@EMULATE
@pytest.mark.parametrize("kind", ["maximum", "minimum"])
@pytest.mark.parametrize("source", ["bool", "uint8", "int64", "float16", "bfloat16", "float32"])
def test_cumulative_extrema(kind: str, source: str, emulate: bool) -> None:
    own = CORE[TORCH[source]]
    for shape in ((9,), (3, 300)):
        x = values(own, number_of_elements(shape), 3)
        if source == "float32":
            x[x == 4] = math.nan
        check(scan(f"running_{kind}", own, shape, False, True), [x], (), emulate)
        check(scan(kind, own, shape, True, False), [x], (), emulate)


@pytest.mark.slow_on("(2, 30000)-native", "(40001,)-native")
@EMULATE
@pytest.mark.parametrize("shape", [(40001,), (2, 30000)], ids=str)
def test_long_scans(shape: tuple[int, ...], emulate: bool) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1)) - 0.3
    got = harness().run(scan("sum", float32, shape), [x], (), emulate)[0].view(shape)
    torch.testing.assert_close(got.double(), x.double().cumsum(-1), rtol=2e-6, atol=2e-3)
    got = harness().run(scan("sum", float32, shape, True), [x], (), emulate)[0].view(shape)
    torch.testing.assert_close(got.double(), x.double().flip(-1).cumsum(-1).flip(-1), rtol=2e-6, atol=2e-3)
    x[..., 20000] = math.nan
    got = harness().run(scan("running_maximum", float32, shape, False, True), [x], (), emulate)
    wanted = x.cummax(-1)
    torch.testing.assert_close(got[0].view(shape), wanted.values, equal_nan=True, rtol=0, atol=0)
    assert torch.equal(got[1].view(shape)[..., :20001], wanted.indices[..., :20001])
    numbers = torch.arange(number_of_elements(shape)).view(shape) * 1000003
    assert torch.equal(
        harness().run(scan("sum", int64, shape), [numbers], (), emulate)[0].view(shape), numbers.cumsum(-1)
    )


def sort(source: dtype, shape: tuple[int, ...], descending: bool, limit: int | None = None) -> Sort:
    numel = number_of_elements(shape)
    limit = shape[-1] if limit is None else limit
    count = numel // shape[-1] * limit
    outputs = (Output(source, count, None), Output(int64, count, None))
    value = load(0, 0, contiguous_strides(shape), source)
    return Sort((operand(source, numel),), outputs, (), "sort", shape, value, source, descending, limit)


@EMULATE
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", STORAGE)
def test_sorts_of_short_rows(kind: str, descending: bool, emulate: bool) -> None:
    own = CORE[TORCH[kind]]
    for shape, limit in (((1,), 1), ((6,), 6), ((3, 17), 17), ((2, 2, 64), 5), ((2, 700), 700)):
        x = values(own, number_of_elements(shape), 4)
        if kind == "float32":
            x[x == 3] = math.nan
            x[x == 2] = -math.inf
            x[::7] = -0.0
        if kind == "int64":
            x = x * 10**11 + x
        check(sort(own, shape, descending, limit), [x], (), emulate)


@EMULATE
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["float32", "int64", "uint8"])
def test_sorts_of_long_rows(kind: str, descending: bool, emulate: bool) -> None:
    shape = (2, 9001)
    x = values(CORE[TORCH[kind]], 18002, 4).view(shape)
    if kind == "float32":
        x = x + torch.randn(shape).round(decimals=1)
        x[1, 17] = math.nan
        x[0, 5:9] = -0.0
    got = harness().run(sort(CORE[TORCH[kind]], shape, descending), [x], (), emulate)
    wanted = x.sort(dim=-1, descending=descending, stable=True)
    torch.testing.assert_close(got[0].view(shape), wanted.values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(got[1].view(shape), wanted.indices)
    got = harness().run(sort(CORE[TORCH[kind]], shape, descending, 10), [x], (), emulate)
    assert torch.equal(got[1].view(2, 10), wanted.indices[:, :10])


@given(
    st.integers(1, 5),
    st.one_of(st.integers(1, 70), st.sampled_from([511, 512, 513, 4095, 4096, 4500])),
    st.sampled_from(["float32", "int64", "int16"]),
    st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_sorts_as_adapters_with_registers_do_them(rows: int, length: int, kind: str, descending: bool) -> None:
    own = harness()
    x = (torch.randn(rows, length) * 20).round().to(TORCH[kind])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "native", own.native.replace(software=False))
        found = own.run(sort(CORE[TORCH[kind]], (rows, length), descending), [x])
    wanted = x.sort(dim=-1, descending=descending, stable=True)
    assert torch.equal(found[0].view(rows, length), wanted.values)
    assert torch.equal(found[1].view(rows, length), wanted.indices)


def scatter(kind: str, own: dtype, lanes: int, rows: int, entries: int) -> Scatter:
    """Return a scatter of ``entries`` rows of ``lanes`` elements into a (rows, lanes) output, at indices given per entry."""
    row = load(1, 0, (0, 1), int64)
    from webgpu_torch_core.ir.expression import coordinate

    index: Expression = row * lanes + cast(coordinate(0), int64)
    value = load(2, 0, (1, lanes), own)
    return Scatter((operand(own, rows * lanes), operand(int64, entries), operand(own, entries * lanes)),
                   (Output(own, rows * lanes, 0),), (), f"scatter_{kind}", (lanes,), (entries,), index, value,
                   None if kind == "set" else monoid(kind, compute_dtype(own)))  # fmt: skip


@EMULATE
@pytest.mark.parametrize("kind", ["sum", "product", "maximum", "minimum"])
@pytest.mark.parametrize("source", STORAGE)
def test_scatter_combines(kind: str, source: str, emulate: bool) -> None:
    own = CORE[TORCH[source]]
    for lanes, rows, entries in ((1, 5, 30), (6, 4, 9), (37, 3, 3)):
        index = torch.randint(0, rows, (entries,), generator=torch.Generator().manual_seed(lanes))
        given = [values(own, rows * lanes, 1), index, values(own, entries * lanes, 2)]
        if own.is_floating_point and kind == "product":
            given[2] = torch.where(given[2] > 0, 1.5, 0.5).to(given[2].dtype)
        if source == "float32" and kind != "sum":
            given[2][1] = math.nan
        check(scatter(kind, own, lanes, rows, entries), given, (), emulate)


@EMULATE
@pytest.mark.parametrize("source", STORAGE)
def test_scatter_sets_one_of_the_values(source: str, emulate: bool) -> None:
    own = CORE[TORCH[source]]
    lanes, rows, entries = 5, 40, 30
    index = torch.randperm(rows, generator=torch.Generator().manual_seed(3))[:entries]
    given = [values(own, rows * lanes, 1), index, values(own, entries * lanes, 2)]
    check(scatter("set", own, lanes, rows, entries), given, (), emulate)
    if source != "bool":
        given = [values(own, 3, 1), torch.zeros(2000, dtype=torch.int64) + 1, values(own, 2000, 2)]
        given[2] = torch.where(torch.arange(2000) % 2 == 0, 5, 2).to(given[2].dtype)
        got = harness().run(scatter("set", own, 1, 3, 2000), given, (), emulate)[0]
        assert got[1] in (5, 2)
        assert got[0] == given[0][0]
        assert got[2] == given[0][2]


def in_pieces(start: torch.Tensor, index: torch.Tensor, source: torch.Tensor, piece: int) -> torch.Tensor:
    """Return rows with those of a source added in the order of entries: those of one row are cut where pieces of the sorted order end."""
    result, order = start.clone(), index.argsort(stable=True).tolist()
    parts: dict[int, list[torch.Tensor]] = {}
    for place, entry in enumerate(order):
        own = parts.setdefault(int(index[entry]), [])
        if not own:
            own.append(result[index[entry]] + source[entry])
        elif place % piece == 0:
            own.append(source[entry].clone())
        else:
            own[-1] += source[entry]
    for row, own in parts.items():
        total = own[0]
        for each in own[1:]:
            total = total + each
        result[row] = total
    return result


@EMULATE
def test_scatter_sums_follow_the_order_of_entries(emulate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float sums that depend on their order are added in it, for many entries too, however few rows most of them go to."""
    sorts = [each for each in VARIANTS[Scatter] if each.name == "sorted entries"]
    monkeypatch.setitem(VARIANTS, Scatter, sorts)

    def run(data: st.DataObject) -> None:
        entries, rows = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 9))
        lanes, piece = data.draw(st.integers(1, 3)), data.draw(st.sampled_from((1, 2, 7, 16, 1000)))
        monkeypatch.setattr(scatters, "_LEAST_PIECE", piece)
        monkeypatch.setattr(scatters, "_MOST_PIECE", piece)
        generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
        skewed = torch.rand(entries, generator=generator) ** data.draw(st.integers(1, 8))
        index = (skewed * rows).long()
        scale = 10.0 ** torch.randint(-3, 4, (entries, lanes), generator=generator)
        x, start = (
            torch.randn(entries, lanes, generator=generator) * scale,
            torch.randn(rows, lanes, generator=generator),
        )
        kernel = scatter("sum", float32, lanes, rows, entries)
        (found,) = harness().run(kernel, [start.flatten(), index, x.flatten()], (), emulate)
        assert torch.equal(found.view(rows, lanes), in_pieces(start, index, x, piece))

    draw(12, run)


@EMULATE
def test_scatter_without_lanes(emulate: bool) -> None:
    """Counting: lanes are empty, the index comes from a load."""
    index = torch.randint(0, 4, (100,), generator=torch.Generator().manual_seed(1))
    for own in (int32, int64, float32):
        kernel = Scatter((operand(own, 4), operand(int64, 100)), (Output(own, 4, 0),), (), "count", (), (100,),
                         load(1, 0, (1,), int64), cast(1, own), monoid("sum", own))  # fmt: skip
        got = harness().run(kernel, [torch.zeros(4, dtype=TORCH[own.name]), index], (), emulate)[0]
        assert torch.equal(got.long(), torch.bincount(index, minlength=4))


@EMULATE
def test_scatter_reads_through_an_index(emulate: bool) -> None:
    index = torch.tensor([1, 0, 3])
    table = torch.randn(5)
    kernel = Scatter((operand(float32, 4), operand(int64, 3), operand(float32, 5)), (Output(float32, 4, 0),), (), "gather_scatter",
                     (), (3,), load(1, 0, (1,), int64), load_at(2, load(1, 0, (1,), int64), float32), monoid("sum", float32))  # fmt: skip
    got = harness().run(kernel, [torch.ones(4), index, table], (), emulate)[0]
    torch.testing.assert_close(got, torch.ones(4).index_add(0, index, table[index]))
