"""Every way to compute an attention agrees with its definition, whatever the blocks; and fits the adapters it is chosen for."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from codegen_harness import harness
from contraction_cases import draw
from golden.profiles import PROFILES
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.codegen import VARIANTS
from webgpu_torch_backend_wgpu.codegen.attention import generate_attention
from webgpu_torch_backend_wgpu.codegen.attention_rows import Rows, generate_few_rows
from webgpu_torch_backend_wgpu.codegen.attention_subgroups import by_subgroups, generate_by_subgroups
from webgpu_torch_backend_wgpu.codegen.attention_tile import AttentionTile
from webgpu_torch_backend_wgpu.codegen.variants import Variant, attention_pays
from webgpu_torch_backend_wgpu.gpu.checking import CheckingRuntime
from webgpu_torch_core.ir.dtypes import bool_, float16, float32
from webgpu_torch_core.ir.expression import coordinate
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_testing.attention_tests import attention, derivative, numbers
from webgpu_torch_testing.running import assert_close, interpret

TILES = [
    (64, 64, 64, 8, 8, 16, True, 1), (128, 64, 64, 8, 8, 8, False, 1), (64, 64, 32, 4, 8, 16, True, 2),
    (64, 64, 64, 4, 16, 16, False, 3), (32, 32, 64, 4, 8, 8, False, 2),
    (128, 64, 64, 4, 8, 8, False, 1),
]  # fmt: skip


#: what a weight changes at most, as a share of it, where it is rounded to 11 bits
HALF_WEIGHTS = 2.0**-11


def check(
    monkeypatch: pytest.MonkeyPatch,
    kernel: Attention,
    plan: Any,
    emit: Any,
    opened: Any = harness,
    rounding: float = 0.0,
) -> None:
    """Compare a kernel by a plan with its definition, on the device of ``opened()``.

    ``rounding``: by which share of it the plan may change a weight. A sum may then be off by that share of the sum of all
    magnitudes, which is the attention to the values' magnitudes.
    """
    monkeypatch.setitem(VARIANTS, Attention, [Variant("forced", lambda *_: [plan], lambda *_: 0.0, emit)])
    given: list[list[Any]] = [numbers(each.numel, 5 + 2 * place) for place, each in enumerate(kernel.operands)]
    if len(given) > 3 and kernel.operands[3].dtype is bool_:
        given[3] = [each > -0.5 for each in given[3]]
    kinds = {"bool": torch.bool, "float16": torch.float16}
    tensors = [
        torch.tensor(each, dtype=kinds.get(described.dtype.name, torch.float32))
        for each, described in zip(given, kernel.operands, strict=True)
    ]
    found = opened().run(kernel, tensors, (0.7,) if kernel.parameters else ())
    wanted = interpret(kernel, given, (0.7,) if kernel.parameters else ())
    results = [each.tolist() for each in found]
    if rounding:
        magnitudes = [*given[:2], [abs(each) for each in given[2]], *given[3:]]
        sums = interpret(kernel, magnitudes, (0.7,) if kernel.parameters else ())[0]
        results[0] = [
            expected + math.copysign(max(abs(each - expected) - rounding * total, 0.0), each - expected)
            for each, expected, total in zip(results[0], wanted[0], sums, strict=True)
        ]
    for result, expected, described in zip(results, wanted, kernel.outputs, strict=True):
        assert_close(result, expected, described.dtype, kernel.name)


@pytest.mark.slow
@pytest.mark.parametrize("plan", TILES, ids=str)
def test_tiles(monkeypatch: pytest.MonkeyPatch, plan: Any) -> None:
    tile = AttentionTile(*plan)
    check(monkeypatch, attention(70, 200, 20, 24, last=coordinate(1) * 2 + 3), tile, generate_attention)
    if tile.splits == 1:
        check(monkeypatch, derivative(66, 34, 9, 12), tile, generate_attention)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [(1, 64, 4, 64), (3, 64, 4, 64), (16, 256, 4, 64), (2, 128, 2, 64)], ids=str)
def test_few_rows(monkeypatch: pytest.MonkeyPatch, plan: tuple[int, int, int, int]) -> None:
    check(monkeypatch, attention(1, 300, 16, 8, batch=2), Rows(*plan), generate_few_rows)
    kernel = attention(5, 140, 6, 3, float16, mask=bool_, first=coordinate(1) * 20)
    check(monkeypatch, kernel, Rows(*plan), generate_few_rows)


def by_some_subgroups(data: st.DataObject) -> None:
    """Draw an attention of few rows and how subgroups share it, and compare with the definition."""
    capabilities = harness().native
    m, n = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 90))
    k, v = 4 * data.draw(st.integers(1, 12)), 4 << data.draw(st.integers(0, 4))
    first = data.draw(st.sampled_from((None, coordinate(1) * 5)))
    last = data.draw(st.sampled_from((None, coordinate(1) * 3 + 1)))
    mask, kind = data.draw(st.sampled_from((None, bool_))), data.draw(st.sampled_from((float32, float16)))
    kernel = attention(m, n, k, v, kind, mask=mask, first=first, last=last, batch=data.draw(st.integers(1, 3)))
    plans = list(by_subgroups(kernel, capabilities))
    assert plans
    plan = data.draw(st.sampled_from(plans))
    with pytest.MonkeyPatch.context() as patch:
        check(patch, kernel, plan, generate_by_subgroups)


def test_few_rows_by_subgroups() -> None:
    if not harness().native.subgroup_size:
        pytest.skip("subgroups of this adapter differ in size")
    draw(25, by_some_subgroups)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_plan_fits_its_adapter(profile: str) -> None:
    backend = WgpuBackend(CheckingRuntime([PROFILES[profile]]))
    device: Any = backend.open(0)
    capabilities = device.capabilities
    kernels = [
        attention(1, 300, 64, 64),
        attention(100, 300, 128, 128),
        attention(9, 40, 300, 300),
        derivative(50, 60, 64, 64),
    ]
    for kernel in kernels:
        found = [(each, plan) for each in VARIANTS[Attention] for plan in each.fits(kernel, capabilities)]
        assert found
        assert attention_pays(kernel, capabilities) in (True, False)
        for variant, plan in found[:: max(len(found) // 2, 1)]:
            for each in variant.emit(kernel, capabilities, plan).passes:
                assert each.source
