"""Attention on matrix units: its text for Dawn's compiler, its values where an adapter has such units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_attention_kernels import HALF_WEIGHTS, check
from test_contraction_matrix import UNITS, assert_valid, checking, computing
from webgpu_torch_backend_wgpu.codegen import choose
from webgpu_torch_backend_wgpu.codegen.attention_matrix import generate_attention_matrix
from webgpu_torch_backend_wgpu.codegen.attention_matrix_tile import AttentionMatrixTile, attention_matrix_tiles
from webgpu_torch_core.ir.dtypes import bool_, float16, float32
from webgpu_torch_core.ir.expression import coordinate
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_testing.attention_tests import attention

CASES = {
    "whole": attention(128, 256, 64, 64, float16),
    "causal": attention(70, 200, 20, 24, float16, last=coordinate(1) * 2 + 3),
    "windows": attention(90, 150, 40, 40, float16, first=coordinate(1), last=coordinate(1) + 40),
    "mask": attention(40, 140, 6, 3, float16, mask=bool_),
    "bias": attention(65, 65, 33, 8, float16, 2, mask=float16),
    "widest": attention(100, 96, 128, 128, float16, 2),
}


def tiles(kernel: Attention, capabilities: Any) -> list[AttentionMatrixTile]:
    """Return the blocks by which a kernel can be computed."""
    found = list(attention_matrix_tiles(kernel, capabilities))
    assert found
    return found


def test_halves_use_matrix_units() -> None:
    given = checking().capabilities
    variant, tile = choose(attention(2048, 2048, 64, 64, float16, 16), given)
    assert variant.name == "tiles of matrices" and isinstance(tile, AttentionMatrixTile)
    # Columns of deep products are read for more rows at a time.
    assert choose(attention(2048, 2048, 128, 128, float16, 16), given)[1].m > tile.m
    for kernel in (attention(128, 128, 64, 64, float32), attention(128, 128, 200, 64, float16)):
        assert not list(attention_matrix_tiles(kernel, given))
    # Values that lie along the columns are not read by rows.
    assert not list(attention_matrix_tiles(attention(128, 128, 64, 64, float16, turned=True), given))
    assert not list(attention_matrix_tiles(CASES["whole"], given.replace(matrix_units=UNITS[:3])))


def test_text_is_valid(tmp_path: Path) -> None:
    given = checking().capabilities
    passes = [
        generate_attention_matrix(each, given, tile).passes for each in CASES.values() for tile in tiles(each, given)
    ]
    assert_valid([found.source for each in passes for found in each], tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_values(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for tile in tiles(CASES[name], computing().native):
        check(monkeypatch, CASES[name], tile, generate_attention_matrix, computing, HALF_WEIGHTS)
