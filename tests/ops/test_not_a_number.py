"""NaN and infinity survive where a compiler might cancel a value against itself; nested conditions keep their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from ops_oracle import ORACLE, OURS, to_ours, to_torch

SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 2.5, -1e10, 1e15]

#: over the last dimension, whose length is 1 in half of the tests
ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda t, x: x.softmax(-1),
    "log_softmax": lambda t, x: x.log_softmax(-1),
    "softmax written out": lambda t, x: (x - x.amax(-1, True)).exp() / (x - x.amax(-1, True)).exp().sum(-1, True),
    "layer_norm": lambda t, x: t.F.layer_norm(x, x.shape[-1:]),
    "centred": lambda t, x: x - x.mean(-1, keepdim=True),
    "share": lambda t, x: x / x.sum(-1, keepdim=True),
    "variance": lambda t, x: x.var(-1, unbiased=False),
    "deviation": lambda t, x: x.std(-1, keepdim=True, unbiased=False) * x,
    "logsumexp": lambda t, x: x.logsumexp(-1),
    "from the smallest": lambda t, x: x - x.amin(-1, keepdim=True),
    "normalised": lambda t, x: x / x.norm(dim=-1, keepdim=True),
    "product": lambda t, x: x / x.prod(-1, keepdim=True),
    "times no integers": lambda t, x: x * (x.signbit() ^ x.signbit()) + x * (x.isnan() & ~x.isnan()),
    "over integers that cancel": lambda t, x: (x.isnan().int() - x.isnan().int()) / x,
    "times one and back": lambda t, x: x * (x.isnan().int() == x.isnan().int()) - x,
    "running": lambda t, x: x.cumsum(-1) - x,
}
POINTS: dict[str, Callable[[Any, Any], Any]] = {
    "difference": lambda t, x: x - x,
    "quotient": lambda t, x: x / x,
    "times nothing": lambda t, x: x * 0,
    "nothing over": lambda t, x: 0 / x,
    "sum and back": lambda t, x: (x + x) - x,
    "opposite": lambda t, x: x + (-x),
    "clone": lambda t, x: x - x.clone(),
    "sum of nothing over": lambda t, x: x[..., None][..., :0].sum(-1) / x,
    "whether any of nothing, over": lambda t, x: (x[..., None] > 0)[..., :0].any(-1) / x,
    "times the product of nothing": lambda t, x: x * (1 - x[..., None][..., :0].prod(-1)),
    "products of nothing over": lambda t, x: (x[..., None][..., :0] @ x.new_zeros(0, 1))[..., 0] / x,
    "ratio of squares": lambda t, x: (x * x) / (x * x),
    "equal": lambda t, x: x == x,  # noqa: PLR0124
    "unequal": lambda t, x: x != x,  # noqa: PLR0124
    "at most": lambda t, x: x <= x,  # noqa: PLR0124
    "less": lambda t, x: x < x,  # noqa: PLR0124
    "not less": lambda t, x: ~(x < 1),
    "maximum": lambda t, x: t.maximum(x, x * 0),
    "clamped": lambda t, x: x.clamp(-1, 1) - x.clamp(-1, 1),
    "rectified": lambda t, x: x.relu(),
    "remainder": lambda t, x: x % x,
    "power": lambda t, x: (x * 0) ** 0 + x.abs() ** 0,
    "times whether it is positive": lambda t, x: x * (x > 0) + (x.sign() > 0) * (1 / x),
    "remainder under a truth value": lambda t, x: (1 / x.isnan().long().fmod(200)) * x.signbit(),
    "selected": lambda t, x: t.where(x == x, x, x + 1),  # noqa: PLR0124
}


#: zeros that a compiler may work out whatever is loaded: of eight numbers, and of whether they are NaN
ZEROS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "exclusive or": lambda t, x, p: p ^ p,
    "exclusive or of opposites": lambda t, x, p: ~(p ^ ~p),
    "neither": lambda t, x, p: ~(p | ~p),
    "remainders of one": lambda t, x, p: p.int() % 1,
    "differences of integers": lambda t, x, p: p.long() - p.long(),
    "integers and their test": lambda t, x, p: p.int() - (p.int() > 0).int(),
    "bytes below zero": lambda t, x, p: p.to(t.uint8) < 0,
    "far shifts": lambda t, x, p: p.int() >> 31 >> 1,
    "comparisons": lambda t, x, p: (x > 1) & (x <= 1),
    "rectified": lambda t, x, p: t.relu((p ^ p).float()),
    "roots": lambda t, x, p: (p ^ p).sqrt(),
    "lengths": lambda t, x, p: t.hypot((p ^ p).float(), (p ^ p).float()),
    "filled": lambda t, x, p: x.masked_fill(p | ~p, 0),
    "filled in part": lambda t, x, p: x.masked_fill(p, 0),
    "positions": lambda t, x, p: t.arange(1, device=x.device),
    "sums": lambda t, x, p: (p ^ p).float().reshape(8, 1).sum(1),
    "products of matrices": lambda t, x, p: ((p ^ p).float()[:, None] @ x.new_ones(1, 1))[:, 0],
    "truth": lambda t, x, p: p,
}
BESIDE_ZEROS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "over": lambda t, x, y: y / x,
    "under": lambda t, x, y: x / y,
    "times": lambda t, x, y: x * y,
    "rounded": lambda t, x, y: y // x,
    "truncated": lambda t, x, y: t.div(y, x, rounding_mode="trunc"),
    "modulo": lambda t, x, y: y % x,
    "angle": lambda t, x, y: t.atan2(y.float(), x),
    "weighted": lambda t, x, y: t.xlogy(y.float(), x),
    "moved": lambda t, x, y: t.addcdiv(x, y.float(), x),
}


def _check(work: Callable[[Any, Any], Any], source: torch.Tensor, device: str) -> None:
    expected = work(ORACLE, source)
    torch.testing.assert_close(to_torch(work(OURS, to_ours(source, device))), expected, equal_nan=True)


@pytest.mark.parametrize("name", sorted(ROWS))
@pytest.mark.parametrize("length", [1, 8])
def test_rows(name: str, length: int, device: str) -> None:
    numbers = SPECIAL if length == 1 else [*SPECIAL, *[1.0, 2.0, float("inf"), 3.0] * 2, *SPECIAL[3:], 0.5, 0.25, 4.0]
    _check(ROWS[name], torch.tensor(numbers).reshape(-1, length), device)
    if length == 1:
        _check(ROWS[name], torch.tensor(SPECIAL[:1]).reshape(1, 1), device)
        _check(ROWS[name], torch.tensor(SPECIAL).half().float().reshape(2, 4, 1), device)


@pytest.mark.parametrize("name", sorted(POINTS))
def test_points(name: str, device: str) -> None:
    _check(POINTS[name], torch.tensor(SPECIAL), device)
    _check(POINTS[name], torch.tensor(SPECIAL[:5]), device)


@pytest.mark.parametrize("zero", sorted(ZEROS))
@pytest.mark.parametrize("use", sorted(BESIDE_ZEROS))
def test_zeros_that_a_compiler_knows(zero: str, use: str, device: str) -> None:
    def work(t: Any, x: Any) -> Any:
        return BESIDE_ZEROS[use](t, x, ZEROS[zero](t, x, x.isnan()))

    _check(work, torch.tensor(SPECIAL), device)


CONDITIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "all of any": lambda t, p, q: (p | q).any(0).all(),
    "any of all": lambda t, p, q: (p & ~q).all(-1).any(),
    "rows": lambda t, p, q: ((p & q) | (~p & ~q)).all(-1),
    "columns": lambda t, p, q: ((p | ~q) & (q | ~p)).any(0),
    "nested": lambda t, p, q: ((p & (q | (p ^ q))) | (~q & (p | q))) & (p | (q & ~p)),
    "of numbers": lambda t, p, q: (((p.float() > 0.5) & (q.int() == 1)) | (p.float() + q.float() == 0)).all(-1),
    "logical": lambda t, p, q: t.logical_or(t.logical_and(p, q), t.logical_xor(p, q)).any(-1),
    "scan": lambda t, p, q: p.cumsum(-1) * q,
    "largest": lambda t, p, q: (p & q).max() | (p | q).min(),
    "product": lambda t, p, q: ((p.int() @ q.int().t()) > 2).any(-1) & p.all(),
    "scattered": lambda t, p, q: p.scatter(1, q.long(), True) & q,
    "selected": lambda t, p, q: t.where(p & q, p | q, q ^ p).any(-1) | t.where(q, p, ~p).all(-1),
}


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_conditions(name: str, device: str) -> None:
    for shape in ((3, 5), (9, 64), (2, 1000)):
        generator = torch.Generator().manual_seed(shape[1])
        p, q = (torch.rand(shape, generator=generator) < share for share in (0.6, 0.5))
        for each in (p, torch.ones_like(p), torch.zeros_like(p)):
            expected = CONDITIONS[name](ORACLE, each, q)
            found = CONDITIONS[name](OURS, to_ours(each, device), to_ours(q, device))
            assert to_torch(found).equal(expected), f"{shape}"
