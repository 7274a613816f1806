"""Of several checks that fail, the first one is told, whatever order they came in before."""

from __future__ import annotations

from typing import Any

import pytest
import webgpu_torch as torch
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_core.operations.value_checks import require_none

MESSAGES = ("one", "two", "three", "four")


@pytest.mark.parametrize("place", ["cpu", "webgpu"])
@given(st.lists(st.tuples(st.sampled_from(MESSAGES), st.booleans()), min_size=1, max_size=6))
def test_the_first_that_fails_is_told(place: str, checks: list[tuple[str, bool]]) -> None:
    ones = torch.ones(3, device=place)
    for message, fails in checks:
        require_none(ones * 2 > (1 if fails else 3), message)
    failed = next((message for message, fails in checks if fails), None)
    if failed is None:
        assert ones.tolist() == [1.0] * 3
    else:
        with pytest.raises(RuntimeError, match=f"^{failed}$"):
            ones.tolist()
        # It is told once.
        assert ones.tolist() == [1.0] * 3


@pytest.mark.parametrize("place", ["cpu", "webgpu"])
def test_divisors_and_weights(place: str) -> None:
    ones: Any = torch.ones(2, dtype=torch.int64, device=place)
    zero = ones - 1
    for first in (True, False):
        with pytest.raises(RuntimeError, match="ZeroDivision" if first else "wrong"):
            if not first:
                require_none(ones > 0, "wrong")
            ones.remainder(zero)
            if first:
                require_none(ones > 0, "wrong")
            ones.tolist()
