"""Remainders and whole quotients of long arrays, which are computed otherwise, beside those of short ones and PyTorch's, bit for bit."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import runtime

FUNCTIONS = {
    runtime.fmod: torch.fmod, runtime.remainder: torch.remainder, runtime.floor_divide: torch.floor_divide,
}  # fmt: skip
NUMBERS = st.floats(width=32) | st.floats(-1000, 1000, width=32) | st.integers(-50, 50).map(float)
PLAIN = st.floats(-1000, 1000, width=32) | st.integers(-50, 50).map(float)


@given(
    pairs=st.lists(st.tuples(PLAIN, PLAIN.filter(lambda x: abs(x) > 1e-3)), min_size=1, max_size=20)
    | st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20),
    seed=st.integers(0, 2**32 - 1),
)
def test_many_are_divided_as_one(pairs, seed):
    drawn = np.array(pairs, np.float32)[np.random.default_rng(seed).integers(0, len(pairs), runtime.MANY)]
    dividends, divisors = np.ascontiguousarray(drawn[:, 0]), np.ascontiguousarray(drawn[:, 1])
    for ours in FUNCTIONS:
        for by in (divisors, divisors[:1]):
            with np.errstate(all="ignore"):
                found = ours(dividends, by)
                halves = zip(np.split(dividends, 2), np.split(np.broadcast_to(by, dividends.shape), 2), strict=True)
                expected = np.concatenate([ours(*half) for half in halves])
            assert found.dtype == expected.dtype == np.float32
            np.testing.assert_array_equal(found, expected)
            kept = ~np.isnan(expected)
            assert np.array_equal(np.signbit(found[kept]), np.signbit(expected[kept]))


def test_quotients_next_to_whole_numbers():
    rng = np.random.default_rng(3)
    divisors = rng.uniform(1e-3, 10, runtime.MANY).astype(np.float32)
    near = (divisors * rng.integers(1, 1 << 21, runtime.MANY)).astype(np.float32)
    for dividends in (near, np.nextafter(near, np.float32(0)), -np.nextafter(near, np.float32(np.inf))):
        for ours, theirs in FUNCTIONS.items():
            expected = theirs(torch.from_numpy(dividends), torch.from_numpy(divisors)).numpy()
            np.testing.assert_array_equal(ours(dividends, divisors), expected)
