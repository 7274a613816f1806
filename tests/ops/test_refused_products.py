"""Products whose factors do not fit, dimensions that are not there, lists of results: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st

SHAPE = st.lists(st.sampled_from([2, 3, 4]), max_size=4).map(tuple)
PRODUCTS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "matmul": lambda t, s, a, b: a @ b, "mm": lambda t, s, a, b: t.mm(a, b), "mv": lambda t, s, a, b: t.mv(a, b),
    "dot": lambda t, s, a, b: t.dot(a, b), "bmm": lambda t, s, a, b: t.bmm(a, b), "outer": lambda t, s, a, b: t.outer(a, b),
    "addmv": lambda t, s, a, b: t.addmv(s, a, b), "addmm": lambda t, s, a, b: t.addmm(s, a, b),
    "addr": lambda t, s, a, b: t.addr(s, a, b), "baddbmm": lambda t, s, a, b: t.baddbmm(s, a, b),
    "addbmm": lambda t, s, a, b: t.addbmm(s, a, b), "linear": lambda t, s, a, b: t.nn.functional.linear(a, b),
    "multi_dot": lambda t, s, a, b: t.linalg.multi_dot([a, b]), "multi_dot of three": lambda t, s, a, b: t.linalg.multi_dot([a, b, s]),
}  # fmt: skip


@given(name=st.sampled_from([*PRODUCTS]), shapes=st.tuples(SHAPE, SHAPE, SHAPE))
def test_products_are_refused_in_pytorch_s_words(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    def told(library: Any) -> Any:
        try:
            return tuple(PRODUCTS[name](library, *(library.ones(each) for each in shapes)).shape)
        except (RuntimeError, IndexError) as error:
            return type(error).__name__, str(error)

    assert told(ours) == told(torch)


@pytest.mark.parametrize("dim", [0, -1, 1, -2])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("size", ()), ("stride", ()), ("unbind", ()), ("repeat_interleave", (2,)), ("roll", (1,)), ("sum", ()), ("unique", ())],
)  # fmt: skip
def test_dimensions_of_what_has_none(name: str, arguments: tuple[int, ...], dim: int) -> None:
    def told(library: Any) -> Any:
        value = library.ones(())
        try:
            found = value.unique(dim=dim) if name == "unique" else getattr(value, name)(*arguments, dim)
        except IndexError as error:
            return str(error).partition("\n")[0]
        return str(found)

    assert told(ours) == told(torch)


def test_functions_of_lists_return_tuples() -> None:
    for library in (torch, ours):
        values = [library.ones(2), library.full((3,), 4.0)]
        found = library._foreach_add(values, 1), library._foreach_sqrt(values), library._foreach_norm(values)
        assert all(type(each) is tuple for each in found)
