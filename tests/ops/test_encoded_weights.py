"""Weights of a few bits: what their bits mean, and products that decode them while they load them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch_core as core
from ops_oracle import sample, to_ours, to_torch
from webgpu_torch_core.ir.encodings import ENCODINGS, define
from webgpu_torch_core.operations.contraction.encoded_weights import decode_weight, encode_weight, encoded_linear
from webgpu_torch_core.record.devices import canonical_device, engine_for


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_small_floats_are_pytorchs(name: str) -> None:
    wanted = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name)).float()
    torch.testing.assert_close(torch.tensor(ENCODINGS[name].codes()), wanted, rtol=0, atol=0, equal_nan=True)


def test_integers() -> None:
    assert ENCODINGS["int4"].codes() == [*map(float, [*range(8), *range(-8, 0)])]
    assert ENCODINGS["int8"].codes() == torch.arange(256, dtype=torch.uint8).view(torch.int8).float().tolist()


def numbers_of(name: str) -> torch.Tensor:
    return torch.tensor([each for each in ENCODINGS[name].codes() if math.isfinite(each)])


@pytest.mark.parametrize("group", [None, 8])
@pytest.mark.parametrize(
    ("name", "offset"),
    [*((name, False) for name in ENCODINGS), *((name, True) for name in ("uint4", "int4", "int2", "int8"))],
)
def test_numbers_are_the_nearest_under_their_scale(name: str, offset: bool, group: Any, device: str) -> None:
    weight = sample((5, 24), torch.float32, 3)
    weight[2, 8:16] = 0
    packed, scales, offsets = encode_weight(to_ours(weight, device), name, group, offset)
    assert packed.nbytes == 5 * 24 * ENCODINGS[name].bits // 8
    assert (offsets is not None) == offset
    found = to_torch(decode_weight(packed, scales, name, offsets=offsets)).reshape(*scales.shape, -1)
    scale = to_torch(scales)[..., None]
    added = to_torch(offsets)[..., None] if offset else torch.zeros_like(scale)
    grouped = weight.reshape(found.shape)
    every = numbers_of(name) * scale[..., None] + added[..., None]
    nearest = (grouped[..., None] - every).abs().amin(-1)
    # Scales are fitted after the numbers were chosen, so that a few lie a little closer to another one.
    far = (grouped - found).abs() > nearest + 1e-5 * grouped.abs() + 1e-6
    assert far.float().mean() <= (0 if ENCODINGS[name].bits == 8 and not offset else 0.1)


def test_zero_points_tell_offsets_in_a_byte(device: str) -> None:
    """Of normal weights they are as good as offsets; groups of one sign, which zero lies outside of, reach down to it."""
    weight = sample((6, 64), torch.float32, 4)
    weight[1, :16], weight[2, 16:32], weight[3, 32:48] = 0, weight[2, 16:32].abs() + 1, -weight[3, 32:48].abs() - 1
    packed, scales, zeros = encode_weight(to_ours(weight, device), "uint4", 16, zero_point=True)
    assert zeros is not None
    assert (packed.shape, scales.shape, zeros.dtype) == ((6, 32), (6, 4), core.uint8)
    found = to_torch(decode_weight(packed, scales, "uint4", offsets=zeros)).reshape(6, 4, 16)
    numbers = torch.stack([to_torch(packed) & 15, to_torch(packed) >> 4], -1).reshape(6, 4, 16).float()
    scale, zero = to_torch(scales).float()[..., None], to_torch(zeros).float()[..., None] / 16
    torch.testing.assert_close(found, (numbers - zero) * scale, rtol=1e-6, atol=1e-7)
    assert ((found - weight.reshape(found.shape)).abs() <= 0.75 * scale + 1e-7).all()
    _, _, offsets = parts = encode_weight(to_ours(weight, device), "uint4", 16, True)
    exact = to_torch(decode_weight(parts[0], parts[1], "uint4", offsets=offsets)).reshape(6, 4, 16)
    usual = torch.ones(6, 4, dtype=torch.bool)
    usual[1, 0] = usual[2, 1] = usual[3, 2] = False
    errors = [(each - weight.reshape(found.shape))[usual].square().sum() for each in (found, exact)]
    assert errors[0] < 1.1 * errors[1]
    for name in ("int4", "nf4", "int8"):
        with pytest.raises(ValueError, match=f"zero points are for numbers from 0 to at most 15; '{name}' has -"):
            encode_weight(to_ours(weight, device), name, 16, zero_point=True)


@pytest.mark.parametrize("name", ["int4", "uint4", "nf4", "int2"])
def test_searched_scales_beat_those_of_the_greatest_magnitude(name: str, device: str) -> None:
    """As close as 4-bit numbers of llama.cpp's best encoder get: the error's power over that of normal weights."""
    weight = torch.randn((32, 256), generator=torch.Generator().manual_seed(0))
    offset = name == "uint4"
    packed, scales, offsets = encode_weight(to_ours(weight, device), name, 32, offset)
    error = (
        to_torch(decode_weight(packed, scales, name, offsets=offsets)) - weight
    ).square().sum() / weight.square().sum()
    numbers = numbers_of(name)
    grouped = weight.reshape(-1, 32)
    if offset:
        step = (grouped.amax(-1, True) - grouped.amin(-1, True)) / 15
        plain = ((grouped - grouped.amin(-1, True)) / step).round() * step + grouped.amin(-1, True)
    else:
        step = grouped.abs().amax(-1, True) / min(numbers.max(), -numbers.min())
        plain = numbers[((grouped / step)[..., None] - numbers).abs().argmin(-1)] * step
    assert error < 0.92 * (plain - grouped).square().sum() / grouped.square().sum()
    if offset:
        assert error < 0.0057


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("int8", {}), ("int4", {}), ("uint4", {"offset": True}), ("uint4", {"zero_point": True}), ("nf4", {}),
        ("float8_e4m3fn", {}),
    ],
)  # fmt: skip
def test_products_decode_what_they_load(name: str, options: dict[str, bool], rows: int, device: str) -> None:
    x, weight = sample((rows, 32), torch.float32, 1), sample((24, 32), torch.float32, 2)
    given = to_ours(x, device)
    packed, scales, offsets = encode_weight(to_ours(weight, device), name, 16, **options)
    wanted = x @ to_torch(decode_weight(packed, scales, name, offsets=offsets)).T
    engine = engine_for(canonical_device(device))
    engine.flush()
    before = engine.statistics["kernels"]
    result = encoded_linear(given, packed, scales, name, offsets)
    engine.flush()
    assert engine.statistics["kernels"] - before == 1
    torch.testing.assert_close(to_torch(result), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"offset": True}, {"zero_point": True}])
def test_some_rows_decode_as_rows_of_all(options: dict[str, bool], device: str) -> None:
    """Weights that lie behind others in memory are read from where they begin."""
    weight = sample((12, 32), torch.float32, 5)
    parts = encode_weight(to_ours(weight, device), "uint4", 16, **options)
    whole = to_torch(decode_weight(parts[0], parts[1], "uint4", offsets=parts[2]))
    for first, last in ((0, 5), (4, 12), (7, 8)):
        packed, scales, *offsets = [each[first:last] for each in parts if each is not None]
        found = to_torch(decode_weight(packed, scales, "uint4", offsets=offsets[0] if offsets else None))
        torch.testing.assert_close(found, whole[first:last], rtol=0, atol=0)


def test_what_does_not_fit_is_refused() -> None:
    weight = to_ours(sample((4, 6), torch.float32), "cpu")
    with pytest.raises(ValueError, match="no encoding 'int5'"):
        encode_weight(weight, "int5")
    with pytest.raises(ValueError, match="groups of 4"):
        encode_weight(weight, "int4", 4)
    with pytest.raises(ValueError, match="5 bits"):
        define("int5", 5, lambda word: word)
