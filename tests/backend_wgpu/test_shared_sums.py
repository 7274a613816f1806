"""Sums that workgroups share although they are few: products of long rows, and counts of many entries in few elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from codegen_harness import Harness, harness
from contraction_cases import close, draw, product
from hypothesis import strategies as st
from test_codegen import operand
from webgpu_torch_backend_wgpu.codegen import choose, scatter
from webgpu_torch_backend_wgpu.codegen.contraction_sums import sums_of
from webgpu_torch_core.ir.dtypes import float16, float32, int32, int64
from webgpu_torch_core.ir.expression import load
from webgpu_torch_core.ir.kernels import Output, Scatter
from webgpu_torch_core.ir.monoids import monoid

pytestmark = pytest.mark.usefixtures("webgpu")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """The harness, whose adapter is taken for hardware."""
    found = harness()
    monkeypatch.setattr(found, "native", found.native.replace(software=False))
    yield found


def name_of(device: Harness, kernel: Any) -> str:
    return choose(kernel, device.native)[0].name


def test_few_long_sums_are_those_of_the_definition(device: Harness) -> None:
    def check(data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from((float32, float16)))
        b, m, n = (data.draw(st.integers(1, 3)) for _ in range(3))
        k = data.draw(st.integers(1 << 15, 1 << 16))
        layouts = data.draw(st.sampled_from(("r", "c"))), data.draw(st.sampled_from(("r", "c")))
        kernel, given, exact = product(b, m, n, k, layouts, kind, data.draw(st.booleans()), float32)
        assert name_of(device, kernel) == "few long sums"
        close(device.run(kernel, given)[0], exact, k)

    draw(12, check)


def test_many_sums_and_short_ones_are_contractions(device: Harness) -> None:
    assert sums_of(product(1, 1, 1, 1 << 15)[0], device.native) is not None
    assert sums_of(product(1, 1, 1, 1 << 10)[0], device.native) is None
    assert sums_of(product(1, 65, 1, 1 << 15)[0], device.native) is None
    assert sums_of(product(1, 1, 1, 1 << 15)[0], device.native.replace(software=True)) is None


def test_counts_are_added_up_in_workgroups(device: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter, "_WORTH", 1 << 10)

    def check(data: st.DataObject) -> None:
        size = data.draw(st.integers(1, 300))
        entries = data.draw(st.integers(max(16 * size, 1 << 10), 20_000))
        monkeypatch.setattr(scatter, "_GROUPS", data.draw(st.integers(1, 2)))
        generator = torch.Generator().manual_seed(entries)
        # Most entries are counted in few elements.
        index = (torch.rand(entries, generator=generator) ** data.draw(st.integers(1, 6)) * size).long()
        amounts = torch.randint(-3, 4, (entries,), generator=generator, dtype=torch.int32)
        start = torch.randint(-9, 9, (size,), generator=generator, dtype=torch.int32)
        kernel = Scatter(
            (operand(int32, size), operand(int64, entries), operand(int32, entries)), (Output(int32, size, 0),), (), "count",
            (), (entries,), load(1, 0, (1,), int64), load(2, 0, (1,), int32), monoid("sum", int32),
        )  # fmt: skip
        assert name_of(device, kernel) == "sums of workgroups"
        (got,) = device.run(kernel, [start.clone(), index, amounts])
        assert torch.equal(got, start.index_add(0, index, amounts))

    draw(15, check)
