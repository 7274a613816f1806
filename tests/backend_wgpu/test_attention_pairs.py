"""Attention of float32 on matrix units: its text for Dawn's compiler, its values where there are units, or emulated ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import matrix_emulation
import numpy as np
import pytest
import torch
from contraction_cases import draw
from hypothesis import strategies as st
from test_attention_kernels import check
from test_contraction_matrix import UNITS, assert_valid
from test_contraction_pairs import able
from webgpu_torch_backend_wgpu.codegen import VARIANTS, choose
from webgpu_torch_backend_wgpu.codegen.attention_pairs import (
    AttentionPairsTile,
    AttentionScaledTile,
    attention_pair_tiles,
    generate_attention_pairs,
)
from webgpu_torch_backend_wgpu.codegen.variants import Variant
from webgpu_torch_backend_wgpu.program import Capabilities, Program
from webgpu_torch_core.ir.dtypes import bfloat16, bool_, float16, float32
from webgpu_torch_core.ir.expression import coordinate
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_testing.attention_tests import attention

CASES = {
    "whole": attention(32, 48, 16, 16),
    "causal": attention(20, 60, 20, 24, last=coordinate(1) * 2 + 3),
    "windows": attention(25, 50, 16, 40, batch=2, first=coordinate(1), last=coordinate(1) + 20),
    "mask": attention(18, 40, 6, 3, mask=bool_),
    "bias": attention(17, 33, 33, 8, batch=2, mask=float32),
    "turned": attention(20, 24, 12, 20, turned=True),
}


class _InMemory(AttentionScaledTile):
    """Blocks whose rows stay in workgroup memory: emulated units find nothing elsewhere."""

    __slots__ = ()

    @property
    def kept(self) -> bool:
        return False


class _PairsInMemory(_InMemory, AttentionPairsTile):
    """The same of pairs."""

    __slots__ = ()


class Adapter(matrix_emulation.Adapter):
    """Runs attention by pairs."""

    def tiles(self, kernel: Attention) -> list[AttentionScaledTile]:
        """Return the blocks of a kernel; of an emulation small ones, whose subgroups share rows or not."""
        found = list(attention_pair_tiles(kernel, self.capabilities))
        if self.emulation is None:
            return found
        k, v = (math.prod(each) for each in (kernel.k, kernel.v))
        unit, padded = self.emulation.unit, -(-k // 16) * 16
        kind = _InMemory if kernel.operands[0].dtype is bfloat16 else _PairsInMemory
        return [kind(16, 16, padded, -(-v // (16 * each)) * 16 * each, each, 1, unit) for each in (1, 2)]

    def emit(self, kernel: Attention, _: Capabilities, tile: AttentionScaledTile) -> Program:
        """Return the program of a kernel by a tile."""
        return self.spelled(generate_attention_pairs(kernel, self.capabilities, tile))

    def run(self, kernel: Attention, operands: list[torch.Tensor], tile: AttentionScaledTile) -> list[torch.Tensor]:
        """Return what a tile computes."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(VARIANTS, Attention, [Variant("forced", lambda *_: [tile], lambda *_: 0.0, self.emit)])
            return self.harness.run(kernel, [each.flatten() for each in operands], (0.25,))


@pytest.fixture(params=matrix_emulation.PLACES)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return matrix_emulation.opened(Adapter, request.param, 8)


def test_long_attention_is_by_pairs() -> None:
    given = able()
    long = attention(2048, 2048, 64, 64, batch=16)
    for kernel in (long, attention(4096, 4096, 40, 64, batch=16, last=coordinate(1) + 1)):
        variant, tile = choose(kernel, given)
        assert "pairs" in variant.name and isinstance(tile, AttentionPairsTile)
    # Neither short ones, nor few rows, nor halves, nor an adapter that rounds halves otherwise or has no units.
    facts = given.facts
    for kernel, other in (
        (attention(64, 64, 64, 64), given),
        (attention(1, 2048, 64, 64, batch=16), given),
        (attention(2048, 2048, 64, 64, float16, 16), given),
        (long, given.replace(facts=facts.replace(packs_halves=False))),
        (long, given.replace(facts=facts.replace(keeps_rests=False))),
        (long, given.replace(facts=facts.replace(products=0.0))),
        (long, given.replace(matrix_units=())),
        (long, given.replace(matrix_units=UNITS[:3])),
        (long, given.replace(binding_bytes=1 << 20)),
    ):
        assert "pairs" not in choose(kernel, other)[0].name
    assert not list(attention_pair_tiles(attention(128, 0, 64, 64), given))
    # Nor so many batches that what is known of each takes long to read.
    assert not list(attention_pair_tiles(attention(49, 49, 32, 32, batch=9000), given))


def test_text_is_valid(tmp_path: Path) -> None:
    given, texts = able(), list[str]()
    for kernel in (*CASES.values(), attention(100, 96, 128, 128, batch=2), attention(70, 90, 64, 64, bfloat16)):
        tiles = list(attention_pair_tiles(kernel, given))
        assert tiles
        texts += [found.source for tile in tiles for found in generate_attention_pairs(kernel, given, tile).passes]
    assert_valid(texts, tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_definition(monkeypatch: pytest.MonkeyPatch, name: str, adapter: Adapter) -> None:
    for tile in adapter.tiles(CASES[name]):
        check(monkeypatch, CASES[name], tile, adapter.emit, lambda: adapter.harness)


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the attention of some queries, and the logarithm of the sum of the scores' exponentials."""
    scores = q @ k.mT * 0.25
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def numbers(kind: str, sizes: tuple[int, int, int, int, int], seed: int) -> list[torch.Tensor]:
    """Return queries, keys and values of one kind of numbers."""
    b, m, n, k, v = sizes
    generator = torch.Generator().manual_seed(seed)
    found = [torch.randn(size, generator=generator) for size in ((b, m, k), (b, n, k), (b, n, v))]
    if kind == "large scores":
        found[0] *= 30
    elif kind == "growing scores":
        found[1] *= torch.linspace(0, 30, n)[:, None]
    elif kind == "batches of all sizes":
        found = [each * torch.logspace(-12, 12, b)[:, None, None] for each in (found[0], 1 / found[1], found[2])]
        found[1] = 1 / found[1].mean(-1, keepdim=True).expand(b, n, k) * torch.logspace(12, -12, b)[:, None, None]
    elif kind == "columns of all sizes":
        found[2] *= torch.logspace(-6, 6, v)
    elif kind == "positive":
        found[2] = found[2].abs()
    elif kind == "zeros":
        found[0][:, ::2], found[2][:, 1::2] = 0, 0
    return [each.float() for each in found]


KINDS = ("usual", "large scores", "growing scores", "columns of all sizes", "positive", "zeros")


def any_numbers(data: st.DataObject, adapter: Adapter) -> None:
    """Compare an attention of drawn sizes and numbers with PyTorch's in float64."""
    few = adapter.emulation is not None
    m, n = data.draw(st.integers(1, 40 if few else 300)), data.draw(st.integers(1, 300 if few else 2000))
    k, v = (data.draw(st.integers(1, 40 if few else 128)) for _ in "kv")
    b = data.draw(st.integers(1, 2))
    kernel = attention(m, n, k, v, batch=b)
    given = numbers(data.draw(st.sampled_from(KINDS)), (b, m, n, k, v), data.draw(st.integers(0, 99)))
    q, key, value = (each.double() for each in given)
    wanted, logarithms = expected(q, key, value)
    magnitudes = expected(q, key, value.abs())[0]
    # Scores are off by what float32's are, and weights by as much of themselves.
    scores = (q.abs() @ key.abs().mT * 0.25).amax(-1)
    bound = (2.0**-20 + 2.0**-21 * scores)[..., None] * magnitudes
    # Of a column, all of whose numbers are far smaller than others, fewer bits are kept.
    bound = bound + 2.0**-36 * value.abs().amax((1, 2), keepdim=True)
    found, sums = adapter.run(kernel, given, data.draw(st.sampled_from(adapter.tiles(kernel))))
    assert ((found.double().view(b, m, v) - wanted).abs() <= bound).all()
    assert ((sums.double().view(b, m) - logarithms).abs() <= 2.0**-20 + 2.0**-21 * scores).all()


@pytest.mark.parametrize(
    "count",
    [pytest.param(2, id="some"), pytest.param(40, id="many", marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_any_numbers(count: int, adapter: Adapter) -> None:
    draw(count, lambda data: any_numbers(data, adapter), derandomize=True)


def test_numbers_of_bfloat16(adapter: Adapter) -> None:
    kernel = attention(20, 150, 24, 20, bfloat16, batch=2)
    given = [each.bfloat16() for each in numbers("growing scores", (2, 20, 150, 24, 20), 4)]
    wanted = expected(*(each.double() for each in given))[0]
    for tile in adapter.tiles(kernel):
        assert tile.parts == 1
        found = adapter.run(kernel, given, tile)[0].double().view(wanted.shape)
        # Weights are halves, and results are rounded to bfloat16.
        magnitudes = expected(given[0].double(), given[1].double(), given[2].double().abs())[0]
        assert ((found - wanted).abs() <= 2.0**-8 * wanted.abs() + 2.0**-11 * magnitudes).all()


def _infinite_value(given: list[torch.Tensor]) -> None:
    given[2][0, 3, 2], given[2][0, 7, 4], given[2][0, 9, 5], given[2][0, 8, 5] = math.inf, math.nan, math.inf, -math.inf


def _infinite_key(given: list[torch.Tensor]) -> None:
    given[1][0, 5, 1] = math.inf
    given[0][0, :, 1] = given[0][0, :, 1].abs() + 1
    given[0][0, 2, 1] *= -1


def _unknown_query(given: list[torch.Tensor]) -> None:
    given[0][0, 4, 2] = math.nan


@pytest.mark.parametrize("change", [_infinite_value, _infinite_key, _unknown_query])
def test_what_is_not_finite(change: Callable[[list[torch.Tensor]], None], adapter: Adapter) -> None:
    kernel = attention(12, 40, 16, 16, batch=2)
    given = numbers("usual", (2, 12, 40, 16, 16), 1)
    change(given)
    for tile in adapter.tiles(kernel)[:1]:
        found, wanted = adapter.run(kernel, given, tile)[0], expected(*given)[0]
        np.testing.assert_allclose(found.view(wanted.shape).numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)
