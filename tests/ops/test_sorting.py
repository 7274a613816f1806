"""Sorting, top-k and running reductions against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from ops_oracle import EVERY, OURS, both_raise, check, kind_of, sample

CASES = {
    "sort": lambda t, x: tuple(t.sort(x, stable=True)),
    "sort descending": lambda t, x: tuple(x.sort(stable=True, dim=0, descending=True)),
    "sort values": lambda t, x: x.sort(-1).values,
    "argsort": lambda t, x: x.argsort(stable=True, dim=0),
    "argsort descending": lambda t, x: t.argsort(x, stable=True, dim=-1, descending=True),
    "topk": lambda t, x: x.topk(2).values,
    "topk smallest": lambda t, x: t.topk(x, 2, dim=0, largest=False).values,
    "topk 1": lambda t, x: tuple(x.topk(1, 1)),
    "kthvalue": lambda t, x: x.kthvalue(2, 1).values,
    "cumsum": lambda t, x: x.cumsum(1),
    "cumsum 0": lambda t, x: t.cumsum(x, dim=0),
    "cumprod": lambda t, x: x.cumprod(1),
    "cummax": lambda t, x: tuple(x.cummax(1)),
    "cummin": lambda t, x: tuple(t.cummin(x, 0)),
    "cumsum dtype": lambda t, x: x.cumsum(0, dtype=t.float32),
    "msort": lambda t, x: t.msort(x),
    "logcumsumexp": lambda t, x: t.logcumsumexp(x, 1),
    "median": lambda t, x: x.median(),
    "unique": lambda t, x: t.unique(x),
}


def _distinct(shape, kind, seed):
    """Return shuffled numbers, each once: equal ones have no single order in top-k."""
    count = math.prod(shape)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).reshape(shape)
    return (
        ((order - count // 2) * (1 if not kind.is_floating_point else 0.25)).to(kind)
        if kind is not torch.uint8
        else order.to(kind)
    )


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("name", sorted(CASES))
def test_forms(name: str, dtype: str, device: str) -> None:
    import webgpu_torch_core as core

    kind = kind_of(dtype, device)
    word = name.split(" ")[0]
    if kind is None or (hasattr(torch, word) and not hasattr(core, word)):
        pytest.skip("not offered here")
    for number, shape in enumerate(((3, 4), (1, 5), (6, 2), (2, 40))):
        x = _distinct(shape, kind, number) if kind is not torch.bool else sample(shape, kind, number)
        check(CASES[name], [x], device, where=f"{name} {shape}")
    check(CASES[name], [_distinct((4, 3), kind, 9).t()], device, where=f"{name} transposed")
    check(CASES[name], [sample((3, 0), kind)], device, where=f"{name} empty")
    if "topk" not in name and "kth" not in name:
        check(
            CASES[name],
            [sample((3, 6), kind, 5).round() if kind.is_floating_point else sample((3, 6), kind, 5)],
            device,
            gradient=False,
            where=f"{name} ties",
        )
    # Which of two NaN comes first in top-k is not defined.
    if kind.is_floating_point and name != "topk 1":
        special = torch.tensor(
            [[1.0, math.nan, -1.0, math.inf], [math.nan, math.nan, 2.0, 3.0], [-math.inf, 0.0, -0.0, 1.0]]
        ).to(kind)
        check(CASES[name], [special], device, gradient=False, where=f"{name} special values")


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "sort values", "topk", "cummax"])
def test_double_backward(name: str, device: str) -> None:
    assert check(
        lambda t, x: CASES[name](t, x * x), [sample((3, 4), torch.float32, 1, 0.3, 2)], device, second=True, where=name
    )


def test_cumprod_with_zeros(device: str) -> None:
    for row in ([1.0, 0.0, 2.0, 3.0], [0.0, 0.0, 2.0, 3.0], [2.0, 3.0, 4.0, 0.0]):
        check(lambda t, x: x.cumprod(0), [torch.tensor(row)], device, where=str(row))


def test_scalars(device: str) -> None:
    for name in ("sort", "cumsum 0", "cummin", "argsort"):
        check(CASES[name], [torch.tensor(3.0)], device, where=name)


ERRORS = {
    "topk": (lambda t, x: x.topk(9), "selected index k out of range"),
    "kthvalue": (lambda t, x: x.kthvalue(9), "selected number k out of range"),
    "dim": (lambda t, x: x.sort(5), "Dimension out of range"),
    "cumsum": (lambda t, x: x.cumsum(2), "Dimension out of range"),
    "multinomial": (lambda t, x: t.multinomial(-x.abs(), 1).tolist(), "probability tensor contains either"),
    "multinomial count": (
        lambda t, x: t.multinomial(x.abs(), 9),
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    ),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str, device: str) -> None:
    both_raise(ERRORS[name][0], [sample((3, 4), torch.float32)], device, ERRORS[name][1])


@pytest.mark.parametrize("bad", [[1.0, -1.0], [1.0, float("nan")], [float("inf"), 1.0], [0.0, 0.0]])
@pytest.mark.parametrize("replacement", [False, True])
def test_bad_weights_are_refused_with_the_next_results(bad: list[float], replacement: bool, device: str) -> None:
    words = (
        "sum of probabilities <= 0"
        if not any(bad)
        else "probability tensor contains either `inf`, `nan` or element < 0"
    )
    good = OURS.tensor([[1.0, 2.0], [0.0, 3.0]], device=device)
    rows = OURS.tensor([[1.0, 2.0], bad], device=device)
    with pytest.raises(RuntimeError, match=words):
        drawn = OURS.multinomial(rows, 1, replacement)
        OURS.multinomial(good, 1, replacement)
        drawn.tolist()
    # Once told, it is over.
    assert OURS.multinomial(good, 1, replacement)[1].item() == 1
