"""While algorithms are to be deterministic, memory that nothing was written to has PyTorch's contents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

MAKERS: list[Any] = [
    lambda library, kind: library.empty(2, 3, dtype=kind),
    lambda library, kind: library.empty(2, 3, out=library.zeros(1, dtype=kind)),
    lambda library, kind: library.empty_like(library.zeros(2, 3, dtype=kind)),
    lambda library, kind: library.empty_strided((2, 3), (1, 4), dtype=kind),
    lambda library, kind: library.empty_permuted((2, 3), (1, 0), dtype=kind),
    lambda library, kind: library.zeros(1, dtype=kind).new_empty(2),
    lambda library, kind: library.zeros(2, dtype=kind).resize_(4),
]
TYPES = ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    yield
    for library in (torch, ours):
        library.use_deterministic_algorithms(False)
        library.utils.deterministic.fill_uninitialized_memory = True


@settings(deadline=None)
@given(st.sampled_from(MAKERS), st.sampled_from(TYPES))
def test_contents(make: Any, kind: str) -> None:
    found = []
    for library in (torch, ours):
        library.use_deterministic_algorithms(True)
        found.append(repr(make(library, getattr(library, kind)).tolist()))
        library.use_deterministic_algorithms(False)
    assert found[1] == found[0]


def test_the_switch() -> None:
    for library in (torch, ours):
        assert library.utils.deterministic.fill_uninitialized_memory is True
        library.utils.deterministic.fill_uninitialized_memory = False
        assert library.utils.deterministic.fill_uninitialized_memory is False
        with pytest.raises(RuntimeError, match="expected a bool, but got int"):
            library.utils.deterministic.fill_uninitialized_memory = 1
