"""Functions whose calls are remembered: each call answers for its own numbers, with gradients and without, as PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_oracle import close, to_ours

#: of a library, two matrices, targets from 0 to 1, labels, and a number
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "affine_grid": lambda t, x, y, p, i, n: t.nn.functional.affine_grid(
        t.stack([x[:2, :3], y[:2, :3]]), (2, 1, 3, len(x)), align_corners=n > 0
    ),
    "binary_cross_entropy_with_logits": lambda t, x, y, p, i, n: t.nn.functional.binary_cross_entropy_with_logits(x, p),
    "cartesian_prod": lambda t, x, y, p, i, n: t.cartesian_prod(x[0], y[0]),
    "cdist": lambda t, x, y, p, i, n: t.cdist(x, y + 9, 1 + n),
    "corrcoef": lambda t, x, y, p, i, n: t.corrcoef(x + 3 * y),
    "cosine_embedding_loss": lambda t, x, y, p, i, n: t.nn.functional.cosine_embedding_loss(x, y, 2 * (i % 2) - 1, n),
    "cosine_similarity": lambda t, x, y, p, i, n: t.nn.functional.cosine_similarity(x, y),
    "cov": lambda t, x, y, p, i, n: t.cov(x, correction=0),
    "cross": lambda t, x, y, p, i, n: t.linalg.cross(x[:, :3], y[:, :3]),
    "diag": lambda t, x, y, p, i, n: t.diag(x[0], 1) * n,
    "dist": lambda t, x, y, p, i, n: t.dist(x, y + 9, 2),
    "huber_loss": lambda t, x, y, p, i, n: t.nn.functional.huber_loss(x, y, delta=n + 0.5),
    "kron": lambda t, x, y, p, i, n: t.kron(x[:2], y),
    "matrix_norm": lambda t, x, y, p, i, n: t.linalg.matrix_norm(x),
    "multi_margin_loss": lambda t, x, y, p, i, n: t.nn.functional.multi_margin_loss(x, i, 1, n),
    "nan_to_num": lambda t, x, y, p, i, n: t.nan_to_num(t.where(p > 0.5, x, float("nan")), n, 7.0),
    "normalize": lambda t, x, y, p, i, n: t.nn.functional.normalize(x),
    "pairwise_distance": lambda t, x, y, p, i, n: t.nn.functional.pairwise_distance(x, y, 2, n),
    "renorm": lambda t, x, y, p, i, n: t.renorm(x, 2, 0, n + 0.1),
    "smooth_l1_loss": lambda t, x, y, p, i, n: t.nn.functional.smooth_l1_loss(x, y, beta=n),
    "soft_margin_loss": lambda t, x, y, p, i, n: t.nn.functional.soft_margin_loss(x, 2 * p.round() - 1),
    "triplet_margin_loss": lambda t, x, y, p, i, n: t.nn.functional.triplet_margin_loss(x, y, p, n + 0.1),
    "vector_norm": lambda t, x, y, p, i, n: t.linalg.vector_norm(x, 2, 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=5, deadline=None)
@given(st.integers(2, 5), st.integers(3, 6), st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=3, max_size=3))
def test_each_call_answers_for_its_own_numbers(name: str, rows: int, columns: int, numbers: list[float]) -> None:
    call = FUNCTIONS[name]
    for seed, (tracked, number) in enumerate(itertools.product((False, True), numbers)):
        torch.manual_seed(seed)
        x, y, p = torch.randn(rows, columns), torch.randn(rows, columns), torch.rand(rows, columns)
        labels = torch.randint(0, columns, (rows,))
        theirs = [x.requires_grad_(tracked), y.requires_grad_(tracked), p, labels]
        mine = [to_ours(each) for each in theirs]
        for each in mine[:2]:
            each.requires_grad_(tracked)
        expected, found = call(torch, *theirs, number), call(ours, *mine, number)
        close(found, expected, 1e-4, 1e-5)
        if tracked and expected.requires_grad and not expected.isnan().any():
            weights = torch.rand(expected.shape)
            (expected * weights).sum().backward()
            (found * to_ours(weights)).sum().backward()
            for one, other in zip(mine[:2], theirs[:2], strict=True):
                assert (one.grad is None) == (other.grad is None)
                if other.grad is not None:
                    close(one.grad, other.grad, 1e-3, 1e-4)


@pytest.mark.parametrize("kind", [2.0, 1.0, float("inf")])
def test_norms_of_all_gradients_are_those_of_each_call(kind: float) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        theirs = [torch.nn.Parameter(torch.randn(3, 2)) for _ in range(4)]
        mine = [ours.nn.Parameter(to_ours(each)) for each in theirs]
        for one, other in zip(mine, theirs, strict=True):
            other.grad = torch.randn(3, 2)
            one.grad = to_ours(other.grad)
        found = ours.nn.utils.clip_grad_norm_(mine, 1.5, kind)
        close(found, torch.nn.utils.clip_grad_norm_(theirs, 1.5, kind))
        for one, other in zip(mine, theirs, strict=True):
            assert other.grad is not None
            close(one.grad, other.grad)
