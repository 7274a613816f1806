"""What determinism refuses, and how results lie in memory: as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st


def test_attributes_are_set_at_the_speed_of_slots() -> None:
    # A method for setting or deleting attributes would make every tensor slower to make.
    assert not any({"__setattr__", "__delattr__"} & set(vars(each)) for each in ours.Tensor.__mro__[:-1])


@pytest.mark.filterwarnings("ignore:put_ does not")
@given(st.sampled_from([None, False, True]), st.booleans(), st.booleans())
def test_what_determinism_refuses(warn_only: bool | None, accumulate: bool, in_place: bool) -> None:
    def program(library: Any) -> Any:
        library.use_deterministic_algorithms(warn_only is not None, warn_only=bool(warn_only))
        try:
            function = library.Tensor.put_ if in_place else library.Tensor.put
            return function(library.zeros(3), library.tensor([0, 2]), library.ones(2), accumulate=accumulate).tolist()
        except RuntimeError as error:
            return str(error)
        finally:
            library.use_deterministic_algorithms(False)

    assert program(ours) == program(torch)


@given(rows=st.integers(2, 4), columns=st.integers(2, 4), turned=st.booleans(), p=st.integers(1, 3))
def test_strides_of_what_is_computed_of_matrices(rows: int, columns: int, turned: bool, p: int) -> None:
    def program(library: Any) -> Any:
        matrix = library.full((columns, rows) if turned else (rows, columns), 5.5)
        matrix = matrix.t() if turned else matrix
        made = library.addr(matrix, library.ones(rows), library.ones(columns), alpha=2), library.mvlgamma(matrix, p)
        return [each.stride() for each in made]

    assert program(ours) == program(torch)
