"""``set_num_threads`` is what products of matrices take."""

from __future__ import annotations

import pytest
import webgpu_torch as torch


def test_products_take_as_many_threads_as_set() -> None:
    controls = pytest.importorskip("threadpoolctl")

    def counts() -> set[int]:
        found = controls.threadpool_info()
        return {each["num_threads"] for each in found if "numpy.libs" in each["filepath"]}

    before, number = counts(), torch.get_num_threads()
    if not before:
        pytest.skip("NumPy has no OpenBLAS of its own here")
    try:
        torch.set_num_threads(1)
        assert counts() == {1} and torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(number)
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_threads(0)
