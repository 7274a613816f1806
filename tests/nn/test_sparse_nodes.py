"""Results of operations on sparse tensors have PyTorch's nodes, are no leaves, and lead to PyTorch's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch as oracle
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

# PyTorch warns of layouts in the making.
pytestmark = pytest.mark.filterwarnings("ignore")
#: what is computed of a leaf by coordinates ``s``, one by rows ``r``, and a dense one ``d``, each [3, 3]
PROGRAMS: dict[str, Callable[..., Any]] = {
    "to_sparse": lambda t, s, r, d: d.to_sparse(),
    "to_sparse of one dimension": lambda t, s, r, d: d.to_sparse(1),
    "to_sparse_csr": lambda t, s, r, d: d.to_sparse_csr(),
    "to_sparse_csc": lambda t, s, r, d: d.to_sparse_csc(),
    "rows of coordinates": lambda t, s, r, d: s.to_sparse_csr(),
    "coordinates of rows": lambda t, s, r, d: r.to_sparse_coo(),
    "sparse_coo_tensor": lambda t, s, r, d: t.sparse_coo_tensor(t.tensor([[0, 2]]), d[:2]),
    "sparse_coo_tensor of a leaf": lambda t, s, r, d: t.sparse_coo_tensor(t.tensor([[0, 1, 2]]), d),
    "coalesce": lambda t, s, r, d: t.sparse_coo_tensor(t.tensor([[0, 0, 2]]), d).coalesce(),
    "to_dense": lambda t, s, r, d: s.to_dense(),
    "to_dense of rows": lambda t, s, r, d: r.to_dense(),
    "values": lambda t, s, r, d: s.values(),
    "values of rows": lambda t, s, r, d: r.values(),
    "sparse.mm": lambda t, s, r, d: t.sparse.mm(s, d),
    "sparse.mm with a sum": lambda t, s, r, d: t.sparse.mm(r, d, "sum"),
    "sparse.mm with a mean": lambda t, s, r, d: t.sparse.mm(r, d, "mean"),
    "sparse.mm with the largest": lambda t, s, r, d: t.sparse.mm(r, d, reduce="amax"),
    "mm": lambda t, s, r, d: t.mm(s, d),
    "matmul": lambda t, s, r, d: s @ d,
    "matmul of rows": lambda t, s, r, d: r @ d,
    "mv": lambda t, s, r, d: t.mv(s, t.ones(3)),
    "sparse.addmm": lambda t, s, r, d: t.sparse.addmm(d, s, d),
    "addmm of rows": lambda t, s, r, d: t.addmm(d, r, d),
    "sampled_addmm": lambda t, s, r, d: t.sparse.sampled_addmm(r, d, d),
    "sum": lambda t, s, r, d: s.sum(),
    "sum of a dimension": lambda t, s, r, d: s.sum(0),
    "sparse.sum": lambda t, s, r, d: t.sparse.sum(s),
    "sparse.sum of a dimension": lambda t, s, r, d: t.sparse.sum(s, 0),
    "softmax": lambda t, s, r, d: t.sparse.softmax(s, 1),
    "log_softmax": lambda t, s, r, d: t.sparse.log_softmax(s, 1),
    "add": lambda t, s, r, d: s + s * 2,
    "sub": lambda t, s, r, d: s - s * 2,
    "neg": lambda t, s, r, d: -s,
    "t": lambda t, s, r, d: s.t(),
    "t of rows": lambda t, s, r, d: r.t(),
    "transpose": lambda t, s, r, d: s.transpose(0, 1),
    "permute": lambda t, s, r, d: s.permute(1, 0),
    "unsqueeze": lambda t, s, r, d: s.unsqueeze(0),
    "select": lambda t, s, r, d: s.select(0, 1),
    "a part": lambda t, s, r, d: s[1],
    "index_select": lambda t, s, r, d: s.index_select(0, t.tensor([2, 0])),
    "stack": lambda t, s, r, d: t.stack([s, s]),
    "cat": lambda t, s, r, d: t.cat([s, s]),
    "sparse_mask": lambda t, s, r, d: d.sparse_mask(s.detach()),
    "norm": lambda t, s, r, d: s.norm(),
    "sin": lambda t, s, r, d: s.sin(),
    "twice": lambda t, s, r, d: s.t().t().coalesce(),
}  # fmt: skip
#: those whose gradient PyTorch refuses for reasons of its own, or gives in another layout
WITHOUT_GRADIENTS = (
    "rows of coordinates", "sum of a dimension", "sampled_addmm", "t of rows", "values of rows", "to_sparse_csc",
)  # fmt: skip


def leaves(torch: Any, rows: list[list[float]]) -> tuple[Any, Any, Any]:
    values = torch.tensor(rows)
    made = values.to_sparse().coalesce(), values.to_sparse_csr(), values
    return tuple(each.detach().requires_grad_() for each in made)  # type: ignore[return-value]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes(name: str) -> None:
    rows = [[0.0, 1.0, 0.0], [2.0, 0.0, 3.0], [4.0, 5.0, 0.0]]
    found = [PROGRAMS[name](torch, *leaves(torch, rows)) for torch in (ours, oracle)]
    told = [(type(each.grad_fn).__name__, each.is_leaf, each.requires_grad) for each in found]
    assert told[0] == told[1]
    for torch in (ours, oracle):
        with torch.no_grad():
            assert PROGRAMS[name](torch, *leaves(torch, rows)).grad_fn is None


def gradients(torch: Any, name: str, rows: list[list[float]]) -> list[Any]:
    given = leaves(torch, rows)
    result = PROGRAMS[name](torch, *given)
    dense = result.to_dense() if result.layout is not torch.strided else result
    (dense * dense).sum().backward()
    # PyTorch gives some matrices by coordinates dense gradients: only the places with values are asked about.
    places = (*((each.detach().to_dense() != 0) for each in given[:2]), 1)
    return [
        None if each.grad is None else (each.grad.to_dense() * place).tolist() for each, place in zip(given, places)
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([each for each in PROGRAMS if each not in WITHOUT_GRADIENTS]),
    st.lists(st.lists(st.sampled_from((0.0, 0.0, 1.0, 2.0, -3.0)), min_size=3, max_size=3), min_size=3, max_size=3),
)
def test_gradients(name: str, rows: list[list[float]]) -> None:
    # No row is empty: the softmax of nothing is nothing.
    rows = [
        [each or 1.0 if place == number else each for place, each in enumerate(row)] for number, row in enumerate(rows)
    ]
    try:
        expected = gradients(oracle, name, rows)
    except NotImplementedError:
        # PyTorch has no kernel for it.
        return
    for mine, theirs in zip(gradients(ours, name, rows), expected):
        assert (mine is None) == (theirs is None)
        assert mine is None or [pytest.approx(each, abs=1e-4) for each in theirs] == mine
