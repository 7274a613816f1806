"""What is read once: operands that contractions compute, and rows that several reductions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from ops_oracle import sample, to_ours, to_torch
from webgpu_torch_core.record.devices import canonical_device, engine_for


def run(program: Callable[..., Any], device: str, shapes: list[Any], dtypes: list[Any] | None = None) -> int:
    """Compare a program with PyTorch; return how many kernels it took."""
    kinds = dtypes or [torch.float32] * len(shapes)
    values = [sample(shape, kind, number) for number, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))]
    given = [to_ours(each, device) for each in values]
    engine = engine_for(canonical_device(device))
    engine.flush()
    before = engine.statistics["kernels"]
    result = program(*given)
    engine.flush()
    count = engine.statistics["kernels"] - before
    torch.testing.assert_close(to_torch(result), program(*values), rtol=1e-4, atol=1e-4)
    return count


PRODUCTS = {
    "rectified": (lambda x, w: x.relu() @ w, [(9, 12), (12, 20)]),
    "scaled weight": (lambda x, w, s: x @ (w * s).t(), [(10, 12), (20, 12), (20, 1)]),
    "bias and scale of the left": (lambda x, w, b, s: ((x + b) * s) @ w, [(9, 12), (12, 20), (12,), (9, 1)]),
    "row times matrix": (lambda x, w: x.relu() @ w, [(1, 32), (32, 20)]),
    "both": (lambda x, w, s: x.relu() @ (w * s), [(9, 12), (12, 20), (20,)]),
    "batches": (lambda x, w: torch_relu(x) @ w, [(3, 9, 12), (3, 12, 10)]),
    "a function of a whole row of blocks": (lambda x, w: (x.exp() - 1).tanh() @ w, [(9, 12), (12, 20)]),
}


def torch_relu(x: Any) -> Any:
    return x.relu()


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_take_prologues(name: str, device: str) -> None:
    program, shapes = PRODUCTS[name]
    assert run(program, device, shapes) == 1


def test_dequantisation_is_a_prologue(device: str) -> None:
    def program(x: Any, w: Any, s: Any) -> Any:
        return x @ (w.to(x.dtype) * s[:, None]).t()

    assert run(program, device, [(6, 16), (24, 16), (24,)], [torch.float32, torch.int8, torch.float32]) == 1


def test_convolutions_take_prologues(device: str) -> None:
    def program(x: Any, w: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return torch.conv2d(x.relu() * 2, w, padding=1)
        import webgpu_torch_core as core

        return core.conv2d(x.relu() * 2, w, padding=1)

    assert run(program, device, [(2, 3, 6, 5), (10, 3, 3, 3)]) == 1


def test_what_is_stored_anyway_is_not_computed_again() -> None:
    # Two readers, a reader and the user, an epilogue of the product before.
    kept = []

    def keeps(x: Any, w: Any) -> Any:
        kept.append(x.relu())
        return kept[-1] @ w

    assert run(lambda x, w: (x.relu() @ w) + (x.relu() @ w), "cpu", [(9, 12), (12, 20)]) <= 3
    assert run(keeps, "cpu", [(9, 12), (12, 20)]) == 2
    assert run(lambda x, w: (x @ w).relu() @ w.t(), "cpu", [(9, 12), (12, 20)]) == 2


def test_expensive_functions_are_computed_once_per_element() -> None:
    assert run(lambda x, w: (x.exp() - 1).tanh() @ w, "cpu", [(70, 12), (12, 200)]) == 2


REDUCTIONS = {
    "sum and maximum": (lambda x: x.sum(-1) + x.amax(-1), 1),
    "of columns": (lambda x: x.sum(0) * x.amin(0), 1),
    "middle dimensions": (lambda x: x.sum(1) - x.amax(1) + x.amin(1), 1),
    "of what is computed": (lambda x: (x * 2).relu().sum(-1) + (x + 1).prod(-1), 1),
    "rows and columns": (lambda x: x.sum(-1).sum() + x.sum(0).sum(), 2),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_the_same_rows_read_them_once(name: str, device: str) -> None:
    program, most = REDUCTIONS[name]
    assert run(program, device, [(4, 5, 6)]) <= most + (name == "rows and columns") * 2
