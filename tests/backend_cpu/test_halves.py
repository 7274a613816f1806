"""Conversions of halves, against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_backend_cpu.halves import from_half, to_half
from webgpu_torch_core.record.devices import engine_for


def as_bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of numbers; all that are no number are one."""
    return np.where(np.isnan(values), values.dtype.type(np.nan), values).view(f"u{values.dtype.itemsize}")


ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("turned", [False, True])
def test_all_halves(turned: bool) -> None:
    values = ALL.reshape(256, 256).T if turned else ALL
    with np.errstate(all="ignore"):
        for each in (values, values[np.isfinite(values)]):
            wide = each.astype(np.float32)
            assert np.array_equal(as_bits(from_half(each)), as_bits(wide))
            assert np.array_equal(as_bits(to_half(wide)), as_bits(each))
    assert np.array_equal(from_half(ALL[:10]), ALL[:10].astype(np.float32))


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1e-4, 1.0, 3e3, 1e5])
def test_drawn_numbers(scale: float) -> None:
    generator = np.random.default_rng(0)
    drawn = (generator.standard_normal(50_000) * scale).astype(np.float32)
    drawn[:3] = 0.0, -0.0, np.nan
    # What lies between two halves, and beside that.
    finite = ALL[np.isfinite(ALL)].astype(np.float64)
    middle = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    bits = generator.integers(0, 1 << 32, 50_000, np.uint32).view(np.float32)
    large = np.array([65504, 65519.996, 65520, 65536, 1e38, np.inf] * 1000, np.float32)
    with np.errstate(all="ignore"):
        for each in (drawn, middle, *beside, bits, np.abs(drawn), large, -large, np.zeros(5000, np.float32)):
            expected = as_bits(each.astype(np.float16))
            into = np.empty(each.shape, np.float16)
            assert np.array_equal(as_bits(to_half(each)), expected)
            assert to_half(each, out=into) is into and np.array_equal(as_bits(into), expected)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 130])
def test_both_sides_of_a_product_are_converted_into_memory_that_is_kept(kind: str, rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    sides = [torch.randn(count, 300, generator=generator).to(getattr(torch, kind)) for count in (rows, 250)]
    with ours.device("cpu"):
        one, other = (ours.tensor(each.float().numpy()).to(getattr(ours, kind)) for each in sides)
        for _ in range(2):
            product = one @ other.T
            kernel = engine_for(product.device).kernels[-1]
            found = torch.from_numpy(product.float().numpy())
            torch.testing.assert_close(found.to(sides[0].dtype), sides[0] @ sides[1].T)
        assert source_of(kernel).count(", out=s") == (2 if rows > 100 else 1)
