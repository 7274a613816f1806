"""Transposed, conjugated and permuted sparse tensors, and their real and imaginary parts: as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours

PROPERTIES = ("T", "mT", "H", "mH", "real", "imag")


def _tensors(t: Any) -> dict[str, Any]:
    places, values = t.tensor([[0, 1, 1], [2, 0, 2]]), t.tensor([3.0, 4.0, 5.0])
    matrix = t.sparse_coo_tensor(places, values, (2, 3))
    complex_matrix = t.sparse_coo_tensor(places, t.complex(values, -values), (2, 3))
    return {
        "coordinates": matrix, "complex": complex_matrix, "rows": matrix.to_sparse_csr(), "columns": matrix.to_sparse_csc(),
        "complex rows": complex_matrix.to_sparse_csr(), "blocks": t.eye(4).to_sparse_bsr((2, 2)),
        "batch": t.sparse_coo_tensor(t.cat([places[:1], places]), values, (2, 2, 3)),
        "dense inside": t.sparse_coo_tensor(places, t.ones(3, 2), (2, 3, 2)),
    }  # fmt: skip


def _read(tensor: Any, name: str) -> Any:
    try:
        found = getattr(tensor, name)
    except (RuntimeError, NotImplementedError) as error:
        return str(error)[:60]
    return [str(found.layout), tuple(found.shape), str(found.dtype), found.to_dense().tolist()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", _tensors(ours))
def test_properties(kind: str) -> None:
    for name in PROPERTIES:
        known = _read(_tensors(torch)[kind], name)
        if "Could not run" in known:
            # PyTorch reverses no dimensions of compressed layouts, and has no parts of theirs.
            continue
        assert _read(_tensors(ours)[kind], name) == known, name


@pytest.mark.filterwarnings("ignore")
def test_permuted() -> None:
    results = []
    for t in (ours, torch):
        tensors = _tensors(t)
        inside = t.sparse_coo_tensor(t.tensor([[0, 1]]), t.arange(12.0).view(2, 2, 3), (2, 2, 3))
        made = [tensors["batch"].permute(2, 0, 1), tensors["batch"].permute((1, 0, -1)), inside.permute(0, 2, 1)]
        results.append([(tuple(each.shape), each.sparse_dim(), each.to_dense().tolist()) for each in made])
        with pytest.raises(RuntimeError, match="transpositions between sparse and dense dimensions are not allowed"):
            inside.permute(1, 0, 2)
        with pytest.raises(RuntimeError, match="permute"):
            inside.permute(0, 1)
    assert results[0] == results[1]


@pytest.mark.filterwarnings("ignore")
def test_gradients() -> None:
    results = []
    for t in (ours, torch):
        values = t.tensor([3.0, 4.0, 5.0], requires_grad=True)
        matrix = t.sparse_coo_tensor(t.tensor([[0, 1, 1], [2, 0, 2]]), values, (2, 3))
        (matrix.mT @ t.arange(4.0).view(2, 2)).sum().backward()
        results.append(values.grad.tolist())
    assert results[0] == results[1]


#: of a namespace and a sparse tensor: what names dimensions that there are not, or has too few or too many
DIMENSIONS = {
    "t": lambda t, x: x.t(),
    "transpose": lambda t, x: x.transpose(0, 5),
    "transpose back": lambda t, x: x.transpose(0, -1),
    "transpose of one": lambda t, x: x.transpose(0, 0),
    "sum": lambda t, x: x.sum(7),
    "to_sparse": lambda t, x: x.to_dense().to_sparse(0),
    "to_sparse of more": lambda t, x: x.to_dense().to_sparse(9),
}


@pytest.mark.parametrize("ndim", [0, 1, 2, 3])
@pytest.mark.parametrize("name", DIMENSIONS)
def test_dimensions_that_there_are_not(name: str, ndim: int) -> None:
    if name == "transpose of one" and ndim == 0:
        pytest.skip("a tensor without dimensions has none to exchange")

    def run(library: Any) -> tuple[str, Any]:
        x = library.arange(2.0**ndim).reshape((2,) * ndim).to_sparse()
        try:
            result = DIMENSIONS[name](library, x)
        except Exception as error:
            return type(error).__name__, str(error)
        return "", (result.to_dense() if result.is_sparse else result).tolist()

    assert run(ours) == run(torch)
