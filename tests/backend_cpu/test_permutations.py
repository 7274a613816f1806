"""Shuffled numbers: exchanges many at a time are exchanges one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import compiled_draws, permutations
from webgpu_torch_core.random_streams.distributions import fill_permutation
from webgpu_torch_core.random_streams.streams import MersenneTwister


@given(
    st.integers(0, 400) | st.integers(8000, 9000) | st.integers(20_000, 70_000),
    st.integers(0, 2**32 - 1),
    st.integers(1, 300),
    st.sampled_from((2, 4, 30)),
)
def test_many_at_a_time(count: int, seed: int, least: int, root: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutations, "LEAST", least)
        patch.setattr(permutations, "OF_ROOT", root)
        patch.setattr(compiled_draws, "permutation", lambda *_: None)
        found, stream = permutations.permutation(MersenneTwister(seed), count), MersenneTwister(seed)
    np.testing.assert_array_equal(found, fill_permutation(stream, count))
