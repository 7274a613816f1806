"""Older names of sparse tensors and of products with them give what PyTorch's give, on drawn matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]
SIZES = st.integers(1, 4)


def told(value: Any) -> Any:
    if value.layout in (torch.strided, webgpu_torch.strided):
        return value.tolist()
    return [
        value._indices().tolist(),
        value._values().tolist(),
        list(value.shape),
        str(value.dtype),
    ]


@settings(deadline=None, max_examples=8)
@given(st.data(), SIZES, SIZES, SIZES)
def test_products(data: st.DataObject, rows: int, inner: int, columns: int) -> None:
    count = data.draw(st.integers(0, 6))
    places = [data.draw(st.lists(st.integers(0, most - 1), min_size=count, max_size=count)) for most in (rows, inner)]
    numbers = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    found = []
    for library in (webgpu_torch, torch):
        positions = library.tensor(places, dtype=library.int64).reshape(2, count)
        sparse = library.sparse.FloatTensor(
            positions, library.tensor(numbers, dtype=library.float32), library.Size([rows, inner])
        )
        dense = library.arange(float(inner * columns)).reshape(inner, columns)
        same = library.eye(rows, columns).to_sparse()
        results = [library.hspmm(sparse, dense), library.dsmm(sparse, dense), library.spmm(sparse, dense)]
        products = [library.smm(sparse, dense), library.sspaddmm(same, sparse, dense, beta=2, alpha=3)]
        results += [library.hsmm(sparse, dense), *(each.to_dense() for each in products)]
        found.append([told(each) for each in results])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["FloatTensor", "LongTensor", "HalfTensor", "ByteTensor"])
def test_types(name: str) -> None:
    found = []
    for library in (webgpu_torch, torch):
        kind = getattr(library.sparse, name)
        made = [
            kind(),
            kind(2, 3),
            kind(library.Size([4])),
            library.sparse_coo_tensor((2, 1)),
            library.sparse_coo_tensor(size=(3,)),
        ]
        kinds = [isinstance(each, kind) for each in made] + [isinstance(made[0], getattr(library, name))]
        found.append([*map(told, made), kinds, isinstance(library.ones(1), kind)])
    assert found[0] == found[1]
