"""Inputs without elements: their gradients, and those of what they were computed with, are PyTorch's; sizes may be 0-d tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours


def _written(library: Any, empty: Any, weight: Any, rows: Any) -> Any:
    mask = library.tensor([False, False], device=rows.device)
    result = rows.clone()
    result[mask] = library.nn.functional.linear(rows[mask], weight)
    return result


def _scattered(library: Any, empty: Any, weight: Any, rows: Any) -> Any:
    mask = library.tensor([False, False], device=rows.device)
    return rows.masked_scatter(mask[:, None], library.nn.functional.linear(rows[mask], weight))


PROGRAMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "cat": lambda library, empty, weight, rows: library.cat([empty, rows]),
    "cat_product": lambda library, empty, weight, rows: library.cat([empty @ weight, rows]),
    "cat_nothing": lambda library, empty, weight, rows: library.cat([empty, empty @ weight]),
    "masked_write": _written,
    "masked_scatter": _scattered,
    "index_add": lambda library, empty, weight, rows: rows.index_add(
        0, library.zeros(0, dtype=library.int64, device=rows.device), empty
    ),
    "index_put": lambda library, empty, weight, rows: rows.index_put(
        (library.zeros(0, dtype=library.int64, device=rows.device),), empty
    ),
    "embedding": lambda library, empty, weight, rows: library.nn.functional.embedding(
        library.zeros(0, dtype=library.int64, device=rows.device), rows
    ),
    "layer_norm": lambda library, empty, weight, rows: library.nn.functional.layer_norm(empty, (3,), weight[0]),
    "first_of_split": lambda library, empty, weight, rows: rows.split([0, 2])[0],
}


def _gradients(library: Any, name: str, device: str) -> list[Any]:
    empty = library.zeros((0, 3), device=device, requires_grad=True)
    weight = library.ones((3, 3), device=device, requires_grad=True)
    rows = library.ones((2, 3), device=device, requires_grad=True)
    PROGRAMS[name](library, empty, weight, rows).sum().backward()
    return [
        None if each.grad is None else (tuple(each.grad.shape), each.grad.tolist()) for each in (empty, weight, rows)
    ]


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_nothing(name: str, device: str) -> None:
    assert _gradients(ours, name, device) == _gradients(torch, name, "cpu")


SIZED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "view": lambda library, x, n: x.view(2, n),
    "expand": lambda library, x, n: library.ones(1).expand(n),
    "as_strided": lambda library, x, n: x.as_strided([2, n], [n, 1]),
    "as_strided_offset": lambda library, x, n: x.as_strided([2, 2], [1, 1], n),
    "zeros": lambda library, x, n: library.zeros(n),
    "ones_pair": lambda library, x, n: library.ones((n, 2)),
    "new_full": lambda library, x, n: x.new_full((n, 2), 1.5),
    "repeat": lambda library, x, n: x.repeat(n),
    "narrow": lambda library, x, n: x.narrow(0, 1, n),
    "unfold": lambda library, x, n: x.unfold(0, n, 1),
    "eye": lambda library, x, n: library.eye(n),
    "roll": lambda library, x, n: x.roll(n),
    "split": lambda library, x, n: x.split(n)[1],
    "chunk": lambda library, x, n: x.chunk(n)[2],
    "diagonal": lambda library, x, n: x.reshape(1, 6).diagonal(n),
    "slice": lambda library, x, n: x[n:],
    "pad": lambda library, x, n: library.nn.functional.pad(x, (0, n)),
    "interpolate": lambda library, x, n: library.nn.functional.interpolate(x.view(1, 1, 2, 3), size=(n, n)),
}


@pytest.mark.parametrize("name", SIZED)
def test_tensors_as_sizes(name: str) -> None:
    found, expected = (SIZED[name](library, library.arange(6.0), library.tensor(3)) for library in (ours, torch))
    assert found.tolist() == expected.tolist()
    assert found.stride() == expected.stride()
    assert all(type(size) is int for size in found.shape)


@pytest.mark.parametrize(
    "function",
    [
        lambda library, x: library.softmax(x, 0),
        lambda library, x: library.log_softmax(x, 1),
        lambda library, x: library.nn.functional.layer_norm(x, (10,)),
        lambda library, x: library.prod(x, 1),
    ],
    ids=["softmax", "log_softmax", "layer_norm", "prod"],
)
def test_gradients_of_nothing_have_gradients(function: Callable[[Any, Any], Any]) -> None:
    for library in (ours, torch):
        x = library.zeros(0, 10, requires_grad=True)
        result = function(library, x)
        (gradient,) = library.autograd.grad(result, x, library.ones_like(result), create_graph=True)
        gradient.sum().backward()
        assert x.grad.shape == (0, 10)
