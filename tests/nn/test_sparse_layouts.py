"""Compressed sparse layouts compute what PyTorch's do: made, turned into one another, multiplied, with gradients."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

#: PyTorch says so once, of layouts that are new and of checks that are left out
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*beta state:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]
BOTH: tuple[Any, Any] = (webgpu_torch, torch)
LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
COMPRESSED = LAYOUTS[1:]


def told(value: Any) -> Any:
    """Return all that is seen of a result."""
    if isinstance(value, (webgpu_torch.Tensor, torch.Tensor)):
        layout = str(value.layout).removeprefix("torch.")
        if layout == "strided":
            parts = value.tolist()
        elif layout == "sparse_coo":
            value = value.coalesce()
            parts = [value.indices().tolist(), value.values().tolist()]
        else:
            names = (
                ("crow_indices", "col_indices")
                if layout in ("sparse_csr", "sparse_bsr")
                else ("ccol_indices", "row_indices")
            )
            found = [getattr(value, name)() for name in names]
            parts = [*((str(each.dtype), each.tolist()) for each in found), value.values().tolist(), value._nnz()]
        return [str(value.dtype), list(value.shape), layout, parts]
    return [told(each) for each in value] if isinstance(value, (list, tuple)) else value


def outcome(function: Callable[[Any], Any], t: Any) -> Any:
    try:
        return told(function(t))
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__, str(error)


def sparse_of(t: Any, dense: Any, layout: str, block: tuple[int, int] = (2, 2)) -> Any:
    blocks = {"blocksize": block} if layout in ("sparse_bsr", "sparse_bsc") else {}
    return dense.to_sparse(layout=getattr(t, layout), **blocks)


@st.composite
def matrices(draw: st.DrawFn, dtype: Any = np.float32) -> np.ndarray:
    """Return a matrix of even sizes, of zeros and small integers."""
    shape = 2 * draw(st.integers(1, 3)), 2 * draw(st.integers(1, 3))
    return np.array(
        draw(
            st.lists(st.sampled_from([0, 0, 0, 1, 2, -3]), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
        ),
        dtype,
    ).reshape(shape)


def given_to(t: Any, array: np.ndarray) -> Any:
    return t.tensor(array.tolist(), dtype=getattr(t, str(array.dtype))).reshape(array.shape)


@pytest.mark.parametrize("layout", COMPRESSED)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_ways_between_layouts(layout: str, data: st.DataObject) -> None:
    array = data.draw(matrices(data.draw(st.sampled_from([np.float32, np.int64]))))
    target = data.draw(st.sampled_from(LAYOUTS))
    block = data.draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2)]))

    def run(t: Any) -> Any:
        found = sparse_of(t, given_to(t, array), layout, block)
        results = [found, found.to_dense(), found.transpose(0, 1), found.mT.to_dense()]
        blocked = layout in ("sparse_bsr", "sparse_bsc")
        if not (blocked and target in ("sparse_csr", "sparse_csc")):
            results.append(sparse_of(t, found, target, block))
            results.append(results[-1].to_dense())
        if not blocked:
            results.append(sparse_of(t, found.to_sparse_coo(), target, block))
        return results

    assert outcome(run, webgpu_torch) == outcome(run, torch)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_batches_and_dense_parts(data: st.DataObject) -> None:
    """As many elements in each tensor of a batch, or PyTorch's refusal; values that are vectors."""
    array = data.draw(matrices())
    layout = data.draw(st.sampled_from(COMPRESSED))
    order = data.draw(st.permutations(range(array.shape[0])))
    stacked = np.stack([array, array[list(order)] if data.draw(st.booleans()) else array])
    inner = np.stack([array, 2 * array], -1)

    def of_batch(t: Any) -> Any:
        found = sparse_of(t, given_to(t, stacked), layout)
        return found, found.to_dense(), found.transpose(1, 2).to_dense()

    def of_vectors(t: Any) -> Any:
        options = {"blocksize": (2, 2)} if layout in ("sparse_bsr", "sparse_bsc") else {}
        found = given_to(t, inner).to_sparse(layout=getattr(t, layout), dense_dim=1, **options)
        return found, found.to_dense(), [found.sparse_dim(), found.dense_dim()]

    assert outcome(of_batch, webgpu_torch) == outcome(of_batch, torch)
    assert outcome(of_vectors, webgpu_torch) == outcome(of_vectors, torch)


@pytest.mark.parametrize("layout", COMPRESSED)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_products_and_sums(layout: str, data: st.DataObject) -> None:
    array = data.draw(matrices())
    wide = data.draw(st.integers(1, 3))
    operand = np.arange(array.shape[1] * wide, dtype=np.float32).reshape(-1, wide) - 2
    number = data.draw(st.integers(-3, 3))

    def run(t: Any) -> Any:
        found = sparse_of(t, given_to(t, array), layout)
        dense, other = given_to(t, array), given_to(t, operand)
        # PyTorch multiplies columns of blocks on no CPU: rows of blocks are the same matrix.
        factor = found.to_sparse_bsr((2, 2)) if layout == "sparse_bsc" and t is torch else found
        results = [
            factor @ other,
            t.sparse.mm(factor, other),
            factor @ other[:, 0],
            found * number,
            -found,
            found.sum(),
        ]
        if layout in ("sparse_csr", "sparse_csc"):
            start = t.ones(array.shape[0], wide)
            results += [other.t() @ found.transpose(0, 1), t.addmm(start, found, other, beta=2, alpha=number)]
        if layout == "sparse_csr":
            shifted = given_to(t, np.roll(array, 1, 0)).to_sparse_csr()
            results += [(found + found), (found + shifted).to_dense(), dense + found, found * dense, found.sin()]
            results += [(found * shifted).to_dense(), (found @ shifted.transpose(0, 1).to_sparse_csr()).to_dense()]
            results.append(t.sparse.sampled_addmm(found, dense, dense.t() @ dense, beta=2, alpha=number))
        return results

    mine, theirs = outcome(run, webgpu_torch), outcome(run, torch)
    assert len(mine) == len(theirs), (mine, theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one[:3] == other[:3]
        np.testing.assert_allclose(
            *(np.concatenate([np.ravel(each).astype(float) for each in flattened(side[3])]) for side in (one, other)),
            rtol=1e-5,
        )


def flattened(parts: Any) -> list[Any]:
    if isinstance(parts, str):
        return []
    return [each for part in parts for each in flattened(part)] if isinstance(parts, (list, tuple)) else [parts]


@pytest.mark.parametrize("layout", COMPRESSED)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_gradients(layout: str, data: st.DataObject) -> None:
    """Gradients of values and of dense operands are those of the dense computation, at the places that there are."""
    array = data.draw(matrices())
    operand = np.linspace(-1, 1, array.shape[1] * 2, dtype=np.float32).reshape(-1, 2)
    kind = data.draw(st.sampled_from(["product", "dense", "scaled"]))
    if not array.any():
        return

    def loss(found: Any, other: Any) -> Any:
        if kind == "product":
            return (found @ other).square().sum()
        return ((found if kind == "dense" else found * 3).to_dense() @ other).square().sum()

    t = webgpu_torch
    source, other = given_to(t, array), given_to(t, operand).requires_grad_()
    found = sparse_of(t, source, layout).requires_grad_()
    loss(found, other).backward()
    dense, theirs = torch.tensor(array, requires_grad=True), torch.tensor(operand, requires_grad=True)
    loss(dense, theirs).backward()
    assert found.grad.layout == getattr(t, layout)
    there = sparse_of(t, source, layout)
    there = there._with(there._held.new_ones(there._held.shape)).to_dense().numpy()
    np.testing.assert_allclose(found.grad.to_dense().numpy(), dense.grad.numpy() * there, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(other.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-4)


def made(t: Any, **options: Any) -> Any:
    return t.sparse_csr_tensor([0, 2, 2, 3], [0, 3, 1], [1.5, -2.0, 4.0], (3, 4), check_invariants=True, **options)


USES: dict[str, Callable[[Any], Any]] = {
    "made": lambda t: [made(t), made(t, dtype=t.float64), made(t).shape, made(t).is_sparse, made(t).is_sparse_csr],
    "text": lambda t: [repr(made(t)), repr(made(t, dtype=t.float64)), str(t.eye(4).to_sparse_bsc((2, 1))), repr(t.eye(2).double().to_sparse())],
    "text of a leaf": lambda t: repr(made(t, requires_grad=True)),
    "without sizes": lambda t: [
        t.sparse_csr_tensor([0, 1, 2], [3, 0], [1.0, 2]), t.sparse_csc_tensor([0, 1, 2], [3, 0], [1, 2]),
        t.sparse_bsr_tensor([0, 1, 2], [3, 0], [[[1.0, 2]], [[3, 4]]]), t.sparse_bsc_tensor([0, 1, 2], [3, 0], [[[1.0, 2]], [[3, 4]]]),
    ],
    "by layout": lambda t: t.sparse_compressed_tensor([0, 1, 2], [1, 0], [1.0, 2], (2, 2), layout=t.sparse_csc),
    "32 bits": lambda t: [each for each in [t.sparse_csr_tensor(t.tensor([0, 1], dtype=t.int32), t.tensor([3], dtype=t.int32), [1.0])]],
    "elements": lambda t: [made(t)[0, 3], made(t)[1], made(t)[2]],
    "types": lambda t: [made(t).double(), made(t).to(t.float16), made(t).clone(), made(t).detach(), made(t).cpu()],
    "copies": lambda t: [copy.deepcopy(made(t)) if t is webgpu_torch else made(t), pickle.loads(pickle.dumps(made(t)))],
    "softmax": lambda t: [t.sparse.softmax(t.eye(2).to_sparse(), 1), t.sparse.log_softmax(made(t).to_sparse(), 0).to_dense().sum() < 0],
    "diagonals": lambda t: [t.sparse.spdiags(t.arange(6.0).reshape(2, 3), t.tensor([0, -1]), (3, 4)), t.sparse.spdiags(t.ones(3), t.tensor(1), (3, 3), t.sparse_csr)],
    "wrong start": lambda t: t.sparse_csr_tensor([1, 2], [0], [1.0], (1, 1), check_invariants=True),
    "wrong end": lambda t: t.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2], (2, 2), check_invariants=True),
    "outside": lambda t: t.sparse_csc_tensor([0, 1], [3], [1.0], (1, 1), check_invariants=True),
    "twice": lambda t: t.sparse_csr_tensor([0, 2], [1, 1], [1.0, 2], (1, 2), check_invariants=True),
    "unsorted": lambda t: t.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2], (1, 2), check_invariants=True),
    "numbers": lambda t: t.sparse_csr_tensor([0, 2], [1], [1.0, 2], (1, 2), check_invariants=True),
    "no layout": lambda t: t.sparse_compressed_tensor([0, 1], [0], [1.0], (1, 1)),
    "blocks that do not fit": lambda t: t.eye(4).to_sparse_bsr((3, 2)),
    "blocks of elements": lambda t: t.eye(4).to_sparse(layout=t.sparse_csr, blocksize=(2, 2)),
    "elements of blocks": lambda t: t.eye(4).to_sparse_bsr((2, 2)).to_sparse_csr(),
    "other blocks": lambda t: t.eye(4).to_sparse_bsr((2, 2)).to_sparse_bsr((1, 2)),
    "columns of rows": lambda t: made(t).ccol_indices(),
    "positions": lambda t: made(t).indices(),
    "rows of dense": lambda t: t.ones(2).crow_indices(),
    "values of dense": lambda t: t.ones(2).values(),
    "rows of coordinates": lambda t: t.eye(2).to_sparse().crow_indices(),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_uses(name: str) -> None:
    mine, theirs = (outcome(USES[name], each) for each in BOTH)
    assert mine == theirs


def test_devices(device: str) -> None:
    found = webgpu_torch.tensor([[0.0, 2], [3, 0]], device=device).to_sparse_csr()
    assert (found @ webgpu_torch.ones(2, 1, device=device)).tolist() == [[2.0], [3.0]]
    assert found.to_sparse_csc().to_dense().tolist() == [[0.0, 2.0], [3.0, 0.0]]
    assert str(found.device).startswith(device.split(":")[0])


def test_warnings_of_pytorch_are_not_ours() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made(webgpu_torch).to_dense().sum() == 3.5


@st.composite
def reduced_products(draw: st.DrawFn) -> tuple[list[list[float]], list[list[float]], str]:
    rows, inner, columns = (draw(st.integers(0, 4)) for _ in range(3))
    # An infinite extremum has no gradient in PyTorch: it equals what its search begins with.
    number = st.sampled_from([0.0, 0.0, -0.0, 1.0, -2.0, 0.5, 3.0])

    def matrix(height: int, width: int) -> list[list[float]]:
        return [[draw(number) for _ in range(width)] for _ in range(height)]

    return (
        matrix(rows, inner),
        matrix(inner, columns),
        draw(st.sampled_from(["sum", "mean", "amax", "amin", "max", "min"])),
    )


@settings(deadline=None)
@given(reduced_products())
@example(([[1.0, 1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0], [-2.0, 3.0]], "mean"))
def test_products_reduced_otherwise(case: tuple[list[list[float]], list[list[float]], str]) -> None:
    left, right, reduce = case

    def run(t: Any) -> Any:
        one = t.tensor(left).reshape(len(left), len(right)).to_sparse_csr().requires_grad_()
        other = t.tensor(right).reshape(len(right), -1 if right and right[0] else 0).requires_grad_()
        product = t.sparse.mm(one, other, reduce)
        # PyTorch adds each gradient to a zero, which takes the sign from another.
        found = [each.to_dense() + 0.0 for each in t.autograd.grad(product.sum(), [one, other])]
        return told([product.detach(), *found])

    assert str(run(webgpu_torch)) == str(run(torch))


def test_products_reduced_otherwise_refuse() -> None:
    for build in (
        lambda t, a, b: t.sparse.mm(a.to_sparse(), b, "sum"), lambda t, a, b: t.sparse.mm(a, b, "sum"),
        lambda t, a, b: t.sparse.mm(a.to_sparse_csr(), b[:1], "amax"), lambda t, a, b: t.sparse.mm(a.to_sparse_csr(), b[0], "amax"),
        lambda t, a, b: t.sparse.mm(a.to_sparse_csr(), b.double(), "mean"), lambda t, a, b: t.sparse.mm(a.to_sparse_csr(), b, "product"),
        lambda t, a, b: t.sparse.mm(a.to_sparse_csr(), b.to_sparse_csr(), "sum"),
    ):  # fmt: skip
        kinds = []
        for t in BOTH:
            with pytest.raises((RuntimeError, NotImplementedError)) as caught:
                build(t, t.eye(2), t.ones(2, 3))
            kinds.append(caught.type)
        assert kinds[0] is kinds[1]
