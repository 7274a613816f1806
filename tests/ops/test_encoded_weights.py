"""Weights of a few bits: what their bits mean, and products that decode them while they load them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from ops_oracle import sample, to_ours, to_torch
from webgpu_torch_core.ir.encodings import ENCODINGS, define
from webgpu_torch_core.operations.contraction.encoded_weights import decode_weight, encode_weight, encoded_linear
from webgpu_torch_core.record.devices import canonical_device, engine_for


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_small_floats_are_pytorchs(name: str) -> None:
    wanted = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name)).float()
    torch.testing.assert_close(torch.tensor(ENCODINGS[name].codes()), wanted, rtol=0, atol=0, equal_nan=True)


def test_integers() -> None:
    assert ENCODINGS["int4"].codes() == [*map(float, [*range(8), *range(-8, 0)])]
    assert ENCODINGS["int8"].codes() == torch.arange(256, dtype=torch.uint8).view(torch.int8).float().tolist()


@pytest.mark.parametrize("group", [None, 8])
@pytest.mark.parametrize("name", ENCODINGS)
def test_decoding_gives_the_nearest_numbers(name: str, group: Any, device: str) -> None:
    weight = sample((5, 24), torch.float32, 3)
    packed, scales = encode_weight(to_ours(weight, device), name, group)
    found = to_torch(decode_weight(packed, scales, name))
    assert packed.nbytes == 5 * 24 * ENCODINGS[name].bits // 8
    numbers = torch.tensor([each for each in ENCODINGS[name].codes() if math.isfinite(each)])
    scale = to_torch(scales).repeat_interleave(24 // scales.shape[1], 1)
    nearest = ((weight / scale)[..., None] - numbers).abs().amin(-1)
    scaled = weight / scale
    assert ((scaled - found / scale).abs() <= nearest + 1e-5 * scaled.abs() + 1e-6).all()


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("name", ["int8", "int4", "nf4", "float8_e4m3fn"])
def test_products_decode_what_they_load(name: str, rows: int, device: str) -> None:
    x, weight = sample((rows, 32), torch.float32, 1), sample((24, 32), torch.float32, 2)
    ours = to_ours(x, device)
    packed, scales = encode_weight(to_ours(weight, device), name, 16)
    wanted = x @ to_torch(decode_weight(packed, scales, name)).T
    engine = engine_for(canonical_device(device))
    engine.flush()
    before = engine.statistics["kernels"]
    result = encoded_linear(ours, packed, scales, name)
    engine.flush()
    assert engine.statistics["kernels"] - before == 1
    torch.testing.assert_close(to_torch(result), wanted, rtol=1e-5, atol=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    weight = to_ours(sample((4, 6), torch.float32), "cpu")
    with pytest.raises(ValueError, match="no encoding 'int5'"):
        encode_weight(weight, "int5")
    with pytest.raises(ValueError, match="groups of 4"):
        encode_weight(weight, "int4", 4)
    with pytest.raises(ValueError, match="5 bits"):
        define("int5", 5, lambda word: word)
