"""Sparse tensors answer as PyTorch's: functions of their values, others like them, masks, norms, parts and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch as reference
import webgpu_torch as ours

LIBRARIES = (ours, reference)
LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
pytestmark = pytest.mark.filterwarnings(
    "ignore:Sparse .* tensor support is in beta", "ignore:Sparse invariant checks are"
)


def dense(library: Any, *shape: int) -> Any:
    count = 1
    for each in shape:
        count *= each
    numbers = library.arange(float(count)).reshape(shape)
    return library.where(numbers % 3 == 0, numbers - 5, library.zeros(()))


def sparse(library: Any, layout: str, *shape: int) -> Any:
    blocks = {"blocksize": (2, 2)} if "bs" in layout else {}
    return dense(library, *(shape or (4, 6))).to_sparse(layout=getattr(library, layout), **blocks)


def same(found: list[Any]) -> None:
    """Require dense results, or parts of sparse ones, that are equal."""
    one, other = (each.to_dense() if "sparse" in str(each.layout) else each for each in found)
    assert str(found[0].layout) == str(found[1].layout)
    assert tuple(one.shape) == tuple(other.shape)
    assert one.tolist() == pytest.approx(other.tolist()) if one.ndim < 2 else True
    assert one.flatten().tolist() == pytest.approx(other.flatten().tolist())


@pytest.mark.parametrize("name", ["isnan", "isinf", "signbit", "frac", "arctan", "expm1", "isneginf"])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_functions_that_are_zero_at_zero(name: str, layout: str) -> None:
    same([getattr(library, name)(sparse(library, layout)) for library in LIBRARIES])


def test_functions_in_place_and_into_others() -> None:
    tensors = [sparse(library, "sparse_coo") for library in LIBRARIES]
    assert all(each.sin_() is each for each in tensors)
    same(tensors)
    outs = [library.sparse_coo_tensor((4, 6)) for library in LIBRARIES]
    for library, each, out in zip(LIBRARIES, tensors, outs, strict=True):
        library.tanh(each, out=out)
    same(outs)
    for library in LIBRARIES:
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            sparse(library, "sparse_coo").to(library.int32).sin_()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_others_like_them(layout: str) -> None:
    for library in LIBRARIES:
        tensor = sparse(library, layout)
        zeros = library.zeros_like(tensor, dtype=library.float64)
        assert (zeros._nnz(), zeros.dtype, tuple(zeros.shape)) == (0, library.float64, (4, 6))
        assert zeros.layout == tensor.layout
        if library is ours or layout == "sparse_coo":
            assert library.zeros_like(tensor, layout=library.strided).tolist() == [[0.0] * 6] * 4
        assert tensor.zero_()._nnz() == 0
        with pytest.raises(RuntimeError, match="only supported by strided tensors"):
            library.zeros_like(sparse(library, "sparse_coo"), memory_format=library.channels_last)
    if layout != "sparse_coo":
        same([library.full_like(sparse(library, layout), 2.0) for library in LIBRARIES])
        drawn = ours.randn_like(sparse(ours, layout))
        assert drawn._nnz() == sparse(ours, layout)._nnz()
    else:
        with pytest.raises(NotImplementedError):
            ours.ones_like(sparse(ours, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_masks_take_places(layout: str) -> None:
    same([dense(library, 4, 6).mul(2).add(1).sparse_mask(sparse(library, layout)) for library in LIBRARIES])
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        ours.ones(2, 2).sparse_mask(sparse(ours, layout))
    with pytest.raises(RuntimeError, match="must be a sparse tensor"):
        ours.ones(2, 2).sparse_mask(ours.ones(2, 2))


def test_masks_of_sparse_tensors_make_nothing_dense() -> None:
    found = []
    for library in LIBRARIES:
        size = (1 << 20, 1 << 20)
        tensor = library.sparse_coo_tensor([[5, 9, 1], [7, 1 << 19, 2]], [1.0, 2.0, 3.0], size)
        mask = library.sparse_coo_tensor([[1, 5, 6], [2, 7, 8]], [1.0, 1.0, 1.0], size).coalesce()
        found.append(tensor.coalesce().sparse_mask(mask).values().tolist())
    assert found[0] == found[1] == [3.0, 1.0, 0.0]


def test_norms_parts_and_steps() -> None:
    for layout in ("sparse_coo", "sparse_csr"):
        same([sparse(library, layout)[1] for library in LIBRARIES])
        same([sparse(library, layout)[2, 1] for library in LIBRARIES])
    same([sparse(library, "sparse_coo")[:, 4] for library in LIBRARIES])
    same([sparse(library, "sparse_coo", 4, 3, 2)[..., 1] for library in LIBRARIES])
    index = [[1, 3, 1], [0], []]
    for each in index:
        chosen = [library.tensor(each, dtype=library.int64) for library in LIBRARIES]
        same([sparse(lib, "sparse_coo").index_select(0, at) for lib, at in zip(LIBRARIES, chosen, strict=True)])
    with pytest.raises(NotImplementedError, match="to_dense"):
        sparse(ours, "sparse_coo")[1:2]
    assert sparse(ours, "sparse_coo").norm().item() == pytest.approx(sparse(reference, "sparse_coo").norm().item())
    assert sparse(ours, "sparse_coo").stride() == sparse(reference, "sparse_coo").stride()
    for library in LIBRARIES:
        with pytest.raises(RuntimeError, match="does not support keepdim"):
            sparse(library, "sparse_coo").norm(keepdim=True)
        with pytest.raises(RuntimeError, match="do not have strides"):
            sparse(library, "sparse_csr").stride()


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc", "sparse_bsr"])
def test_batches_by_coordinates(layout: str) -> None:
    numbers = [library.arange(48.0).reshape(2, 4, 6) + 1 for library in LIBRARIES]
    blocks = {"blocksize": (2, 3)} if "bs" in layout else {}
    found = [
        each.to_sparse(layout=getattr(library, layout), **blocks).to_sparse_coo()
        for library, each in zip(LIBRARIES, numbers, strict=True)
    ]
    same(found)
    assert found[0].is_coalesced() == found[1].is_coalesced()


def test_checks_of_parts() -> None:
    for library in LIBRARIES:
        coordinates, rows = sparse(library, "sparse_coo"), sparse(library, "sparse_csr")
        library._validate_sparse_coo_tensor_args(coordinates.indices(), coordinates.values(), (4, 6))
        library._validate_sparse_csr_tensor_args(rows.crow_indices(), rows.col_indices(), rows.values(), (4, 6))
        with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
            library._validate_sparse_coo_tensor_args(coordinates.indices(), coordinates.values(), (3, 6))
        with pytest.raises(RuntimeError, match="uncoalesced"):
            library._validate_sparse_coo_tensor_args(
                coordinates.indices().flip(1), coordinates.values(), (4, 6), is_coalesced=True
            )
        with pytest.raises(RuntimeError, match=r"shape\[-1\] must be equal to"):
            library._validate_sparse_compressed_tensor_args(
                rows.crow_indices(), rows.col_indices(), rows.values(), (5, 6), library.sparse_csr
            )
        with pytest.raises(RuntimeError, match=r"sparse_dim argument !=self.sparse_dim\(\) is not supported"):
            coordinates.to_sparse(1)
        assert library.sparse_coo_tensor([[1]], 4.0, (3,)).to_dense().tolist() == [0.0, 4.0, 0.0]


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_tensors_are_taken_apart(layout: str) -> None:
    for dim in (0, 1):
        for each in zip(*(sparse(library, layout).unbind(dim) for library in LIBRARIES), strict=True):
            same(list(each))
    assert len(list(sparse(ours, layout))) == 4


def test_products_of_sparse_inputs() -> None:
    results = []
    for library in LIBRARIES:
        weight, bias = dense(library, 3, 6).requires_grad_(), library.ones(3)
        rows = library.nn.functional.linear(sparse(library, "sparse_coo"), weight, bias)
        rows.sum().backward()
        batch = library.stack([sparse(library, "sparse_coo")] * 2)
        results.append((rows.detach(), weight.grad, library.bmm(batch, dense(library, 2, 6, 3))))
    for each in zip(*results, strict=True):
        same(list(each))


REFUSALS: dict[str, Callable[[Any], Any]] = {
    "truth of many": lambda t: bool(sparse(t, "sparse_coo")),
    "a number of many": lambda t: float(sparse(t, "sparse_csr")),
    "an array": lambda t: sparse(t, "sparse_coo").numpy(),
    "an array of compressed rows": lambda t: sparse(t, "sparse_csr").numpy(),
    "a list": lambda t: sparse(t, "sparse_coo").tolist(),
    "memory": lambda t: sparse(t, "sparse_coo").data_ptr(),
    "another shape": lambda t: sparse(t, "sparse_coo").reshape(24),
    "a product with other rows": lambda t: sparse(t, "sparse_coo") @ t.ones(5, 2),
    "a product with a longer vector": lambda t: sparse(t, "sparse_coo") @ t.ones(5),
    "a product of compressed rows": lambda t: sparse(t, "sparse_csr") @ t.ones(5, 2),
    "fewer values than positions": lambda t: t.sparse_coo_tensor(t.zeros(2, 3).long(), t.ones(2), (2, 3)),
    "sizes of other dimensions": lambda t: t.sparse_coo_tensor(t.zeros(2, 3).long(), t.ones(3), (2, 3, 4)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_words_of_refusals(name: str) -> None:
    found = []
    for library in LIBRARIES:
        with pytest.raises((RuntimeError, TypeError, ValueError)) as error:
            REFUSALS[name](library)
        found.append((error.type, str(error.value)))
    assert found[0] == found[1]


def test_the_only_element_is_a_number() -> None:
    for library in LIBRARIES:
        one = library.tensor([2.5]).to_sparse()
        assert bool(one) and float(one) == 2.5 and int(one) == 2
