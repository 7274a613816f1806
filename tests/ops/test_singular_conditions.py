"""Condition numbers of matrices that have no inverse, or hold what is not finite, are infinite, as PyTorch's are."""

from __future__ import annotations

import math

import pytest
import torch as oracle
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

NORMS = ("fro", 1, -1, math.inf, -math.inf)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from((1, 2, 3)), st.sampled_from(("float32", "float64")), st.sampled_from(NORMS), st.data())
def test_condition_numbers_of_whole_numbers(size, kind, norm, data) -> None:
    # Of zeros and ones nearly half have no inverse, and what the others' norms are is exact to a few roundings.
    elements = st.sampled_from((0.0, 0.0, 1.0, 1.0, 2.0))
    rows = data.draw(st.lists(st.lists(elements, min_size=size, max_size=size), min_size=size, max_size=size))
    found = [
        torch.linalg.cond(torch.tensor([rows], dtype=getattr(torch, kind)), norm).tolist() for torch in (ours, oracle)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("torch", (oracle, ours))
def test_what_is_not_finite(torch, norm) -> None:
    matrices = torch.tensor([[[1.0, math.nan], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert torch.linalg.cond(matrices, norm).isinf().tolist() == [True, True, False]


@pytest.mark.parametrize("rows", ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]))
def test_nuclear_norms(rows) -> None:
    found = [torch.linalg.cond(torch.tensor(rows), "nuc").item() for torch in (ours, oracle)]
    assert found[0] == pytest.approx(found[1], nan_ok=True)
