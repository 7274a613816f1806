"""Counts in equal bins are PyTorch's."""

from __future__ import annotations

import re

import pytest
import torch as reference
import webgpu_torch as torch
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.integers(-8, 8).map(float) | st.floats(-4, 4, width=32) | st.sampled_from([float("nan"), float("inf")])


@given(
    st.lists(NUMBERS, min_size=1, max_size=40), st.integers(1, 20), st.sampled_from([(0, 0), (-4, 4), (-1.5, 2), (2, 2)]),
    st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_histc(values: list[float], bins: int, ends: tuple[float, float], kind: str) -> None:
    def counts(library: object) -> list[float]:
        made = library.tensor(values, dtype=getattr(library, kind))  # type: ignore[attr-defined]
        return made.histc(bins, *ends).tolist()

    try:
        expected = counts(reference)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match="is not finite|larger than min") as found:
            counts(torch)
        # What is no number has a sign there, and infinity is the greatest number.
        texts = [re.sub(r"\[.*\]", "", str(each)) for each in (found.value, error)]
        assert texts[0] == texts[1]
    else:
        assert counts(torch) == expected
