"""What cannot be taken from a tensor, what determinism refuses, and how results lie in memory: as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st

NAMES = [
    "dtype", "shape", "grad", "data", "device", "requires_grad", "is_leaf", "T", "grad_fn", "_base", "output_nr", "_version", "ndim",
    "nbytes", "itemsize", "is_sparse", "mine", "nothing",
]  # fmt: skip


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
def test_deleted_attributes(names: list[str]) -> None:
    def program(library: Any) -> Any:
        tensor, found = library.ones(2, requires_grad=True), []
        (tensor * 2).sum().backward()
        tensor.mine = 1
        for name in names:
            try:
                delattr(tensor, name)
                found.append(name)
            except (AttributeError, RuntimeError) as error:
                found.append((type(error).__name__, str(error)))
            found += [tuple(tensor.shape), None if tensor.grad is None else tensor.grad.tolist(), (tensor + 1).tolist()]
        return found

    assert program(ours) == program(torch)


def test_a_subclass_deletes_its_own() -> None:
    deleted = []

    class Marked(ours.Tensor):
        @property
        def mark(self) -> int:
            return 1

        @mark.deleter
        def mark(self) -> None:
            deleted.append(self)

    tensor = ours.ones(2).as_subclass(Marked)
    del tensor.mark
    assert len(deleted) == 1


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
