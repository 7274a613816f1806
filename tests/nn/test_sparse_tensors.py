"""Sparse tensors by coordinates compute what PyTorch's do, gradients included."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

BOTH: tuple[Any, Any] = (webgpu_torch, torch)


def made(t: Any, dtype: str = "float32", size: tuple[int, ...] = (3, 4), **options: Any) -> Any:
    positions = [[0, 2, 0, 1], [3, 1, 3, 0]]
    return t.sparse_coo_tensor(
        positions, [1.5, -2.0, 0.5, 4.0], size, dtype=getattr(t, dtype), check_invariants=True, **options
    )


def dense(t: Any, *shape: int) -> Any:
    return t.arange(1.0, 1 + float(np.prod(shape))).reshape(shape) / 7


def told(value: Any) -> Any:
    """Return all that is seen of a result."""
    if isinstance(value, (webgpu_torch.Tensor, torch.Tensor)):
        sparse = value.is_sparse
        parts = (
            [value._indices().tolist(), value._values().tolist(), value.is_coalesced()] if sparse else value.tolist()
        )
        return [str(value.dtype), list(value.shape), str(value.layout), value.requires_grad, parts]
    return [told(each) for each in value] if isinstance(value, (list, tuple)) else value


USES: dict[str, Callable[[Any], Any]] = {
    "made": lambda t: [made(t), made(t).shape, made(t).dim(), made(t).numel(), made(t)._nnz(), made(t).sparse_dim(), made(t).dense_dim()],
    "text": lambda t: [repr(made(t)), repr(made(t).coalesce()), str(t.eye(2).to_sparse())],
    "coalesced": lambda t: [made(t).coalesce(), made(t).coalesce().indices(), made(t).coalesce().values()],
    "without sizes": lambda t: t.sparse_coo_tensor([[0, 2], [1, 5]], [1, 2], check_invariants=True),
    "dense": lambda t: [made(t).to_dense(), made(t, "int64").to_dense(), made(t, "bool").to_dense()],
    "dense parts": lambda t: [(each, each.to_dense(), each.dense_dim()) for each in [t.sparse_coo_tensor([[2, 0]], [[1.0, 2.0], [3.0, 4.0]], (3, 2), check_invariants=True)]],
    "of dense": lambda t: [t.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(), t.tensor([True, False, True]).to_sparse(), t.eye(3).to_sparse(1), t.zeros(2, 2).to_sparse()],
    "matrix products": lambda t: [made(t) @ dense(t, 4, 2), t.mm(made(t), dense(t, 4, 2)), made(t).matmul(dense(t, 4)), t.sparse.mm(made(t), dense(t, 4, 2))],
    "from the right": lambda t: dense(t, 2, 3) @ made(t),
    "sums": lambda t: [made(t).add(made(t)).coalesce(), dense(t, 3, 4) + made(t), (made(t) - made(t).mul(2)).coalesce(), t.add(made(t), made(t), alpha=3).coalesce()],
    "all summed": lambda t: [made(t).sum(), t.sparse.sum(made(t)), t.sparse.sum(made(t), 0), t.sparse.sum(made(t), [1])],
    "scaled": lambda t: [made(t) * 2, 2 * made(t), made(t).coalesce() / 4, made(t).coalesce() * made(t).coalesce(), -made(t).coalesce()],
    "functions": lambda t: [each.values() for each in (made(t).coalesce().abs(), t.sin(made(t).coalesce()), made(t).coalesce().pow(2), made(t).coalesce().sqrt())],
    "turned": lambda t: [made(t).t().to_dense(), made(t).transpose(0, 1).shape],
    "types": lambda t: [made(t).double(), made(t).to(t.float16), made(t).int(), made(t).clone(), made(t).detach(), made(t).cpu()],
    "asked": lambda t: [made(t).is_sparse, t.ones(2).is_sparse, str(made(t).device), len(made(t)), made(t).size(1), isinstance(made(t), t.Tensor)],
    "copies": lambda t: [copy.deepcopy(made(t)), pickle.loads(pickle.dumps(made(t)))],
    "buffers": lambda t: [b for b in _module(t).double().buffers()],
}  # fmt: skip


def _module(t: Any) -> Any:
    module = t.nn.Module()
    module.register_buffer("kept", made(t))
    return module


@pytest.mark.parametrize("name", USES)
def test_uses(name: str) -> None:
    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return float(np.float32(value)) if value != value else round(value, 5)
        return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value

    found, expected = (rounded(told(USES[name](each))) for each in BOTH)
    assert str(found) == str(expected)


GRADIENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda t, s, d: t.sparse.mm(s, d).square().sum(),
    "dense": lambda t, s, d: (s.to_dense() @ d).sum(),
    "sum": lambda t, s, d: t.sparse.sum(s * 3) + d.sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    results = []
    for t in BOTH:
        sparse = made(t, requires_grad=True)
        operand = dense(t, 4, 2).requires_grad_()
        GRADIENTS[name](t, sparse, operand).backward()
        assert sparse.grad.is_sparse
        results.append([sparse.grad.to_dense().tolist(), operand.grad.tolist()])
    np.testing.assert_allclose(np.array(results[0][0]), np.array(results[1][0]), rtol=1e-5)
    np.testing.assert_allclose(np.array(results[0][1]), np.array(results[1][1]), rtol=1e-5)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "indices": lambda t: made(t).indices(),
    "values": lambda t: made(t).values(),
    "outside": lambda t: t.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), check_invariants=True),
    "negative": lambda t: t.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,), check_invariants=True),
    "numbers": lambda t: t.sparse_coo_tensor([[0, 1]], [1.0], (3,), check_invariants=True),
    "sizes": lambda t: made(t) @ dense(t, 3, 2),
    "sum with a dense tensor": lambda t: made(t) + dense(t, 3, 4),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    for t in BOTH:
        with pytest.raises(RuntimeError):
            REFUSED[name](t)


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(NotImplementedError, match="cumsum.*to_dense"):
        webgpu_torch.cumsum(made(webgpu_torch), 1)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_drawn(data: st.DataObject) -> None:
    """Positions that repeat or are missing, sizes of zero, dense parts."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    inner = data.draw(st.lists(st.integers(0, 3), max_size=1))
    count = data.draw(st.integers(0, 6))
    positions = [data.draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count)) for size in sizes]
    values = np.arange(count * int(np.prod(inner)), dtype=np.float32).reshape(count, *inner) - 2
    results = []
    for t in BOTH:
        sparse = t.sparse_coo_tensor(
            t.tensor(positions, dtype=t.int64).reshape(len(sizes), count), t.tensor(values.tolist()).reshape(values.shape), [*sizes, *inner], check_invariants=True
        )  # fmt: skip
        results.append(
            told(
                [
                    sparse.coalesce(),
                    sparse.to_dense(),
                    (sparse + sparse).coalesce(),
                    sparse.to_dense().to_sparse(),
                    sparse.sum(),
                ]
            )
        )
    assert results[0] == results[1]


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")
@pytest.mark.parametrize("value", [0.0, 2.0])
def test_numbers_are_sparse_tensors_of_no_dimensions(value: float) -> None:
    for t in (webgpu_torch, torch):
        made = t.tensor(value).to_sparse()
        again = t.sparse_coo_tensor(t.zeros(0, 2, dtype=t.int64), t.tensor([value, 1.0]), ()).coalesce()
        assert (made.to_dense().item(), made._nnz(), made.dim()) == (value, int(value != 0), 0)
        assert (again.to_dense().item(), list(again.indices().shape)) == (value + 1, [0, 1])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=3), st.integers(1, 3), st.sampled_from(["cat", "stack", "hstack", "vstack", "unsqueeze"]),
    st.integers(-4, 3), st.integers(1, 3), st.integers(0, 9),
)  # fmt: skip
def test_joined(sizes: list[int], kept: int, name: str, dim: int, count: int, seed: int) -> None:
    """Sparse tensors next to each other, with a new dimension or without: PyTorch's positions, values and sizes, in its order."""
    draws = torch.Generator().manual_seed(seed)
    dense = [torch.randint(-1, 2, sizes, generator=draws).float() for _ in range(count)]
    kept = min(kept, len(sizes))

    def called(library: Any) -> Any:
        parts = [library.tensor(each.tolist(), dtype=library.float32).reshape(sizes).to_sparse(kept) for each in dense]
        if name == "unsqueeze":
            return parts[0].unsqueeze(dim)
        return getattr(library, name)(parts, *([dim] if name in ("cat", "stack") else []))

    try:
        expected = called(torch)
    except (RuntimeError, IndexError) as error:
        with pytest.raises(type(error)):
            called(webgpu_torch)
        return
    found = called(webgpu_torch)
    assert tuple(found.shape) == tuple(expected.shape)
    assert (found.sparse_dim(), found.dense_dim(), found.is_coalesced()) == (
        expected.sparse_dim(),
        expected.dense_dim(),
        expected.is_coalesced(),
    )
    assert found._indices().tolist() == expected._indices().tolist()
    assert found._values().tolist() == expected._values().tolist()


def test_joining_refuses_dense_tensors() -> None:
    for library in (torch, webgpu_torch):
        sparse = library.eye(2).to_sparse()
        with pytest.raises(RuntimeError, match="a dense tensor was found at position 1"):
            library.cat([sparse, library.ones(2, 2)])
        with pytest.raises(RuntimeError, match="same shape"):
            library.cat([sparse, library.eye(3).to_sparse()])
