"""What LAPACK's routines compute is what PyTorch computes, and what NumPy alone does where there is no such library."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.algorithms import lapack, linalg

TYPES = ("float32", "float64", "complex64", "complex128")


@st.composite
def systems(draw):
    """Return matrices with a dominant diagonal and right sides, and what is to be read of them."""
    kind = draw(st.sampled_from(TYPES))
    batch, size, columns = (
        draw(st.sampled_from(((), (3,), (2, 2), (40,)))),
        draw(st.integers(0, 40)),
        draw(st.integers(0, 5)),
    )
    numbers = np.random.default_rng(draw(st.integers(0, 99)))

    def filled(shape):
        values = numbers.normal(size=shape)
        return (values + 1j * numbers.normal(size=shape) if "complex" in kind else values).astype(kind)

    a = filled((*batch, size, size)) / max(size, 1) + 2 * np.eye(size, dtype=kind)
    return a, filled((*batch, size, columns)), draw(st.booleans()), draw(st.booleans())


def same(found, wanted) -> None:
    torch.testing.assert_close(torch.from_numpy(np.asarray(found)), wanted, check_stride=False)


@pytest.mark.parametrize("known", (True, False))
def test_drawn_systems(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not known:
        monkeypatch.setattr(lapack, "routine", lambda name: None)
    lapack._routine.cache_clear()

    @settings(max_examples=40, deadline=None)
    @given(systems())
    def agrees(system) -> None:
        a, b, upper, ones = system
        wanted = torch.linalg.solve_triangular(
            torch.from_numpy(a), torch.from_numpy(b), upper=upper, unitriangular=ones
        )
        before = a.copy(), b.copy()
        same(linalg.solve_triangular(a, b, upper, ones)[0], wanted)
        # A part of a greater matrix, and one by columns.
        turned = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
        same(linalg.solve_triangular(turned, b, upper, ones)[0], wanted)
        for one, other in zip(before, (a, b), strict=True):
            assert np.array_equal(one, other)
        factors, pivots, info = linalg.lu(np.concatenate((a, b), -1))
        expected = torch.linalg.lu_factor_ex(torch.from_numpy(np.concatenate((a, b), -1)))
        same(factors, expected[0])
        same(pivots, expected[1])
        same(info, expected[2])

    try:
        agrees()
    finally:
        lapack._routine.cache_clear()


def test_singular_matrices_are_told() -> None:
    a = [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]
    with ours.device("cpu"):
        found = ours.linalg.lu_factor_ex(ours.tensor(a))
    wanted = torch.linalg.lu_factor_ex(torch.tensor(a))
    for one, other in zip(found, wanted, strict=True):
        same(one.numpy(), other)
        assert one.stride() == other.stride()
