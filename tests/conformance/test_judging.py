"""What counts as right where rounding or ties leave PyTorch's own result open, and what does not."""

from __future__ import annotations

from typing import Any

import comparison
import pytest
from database import entries, ours, torch
from gradients import _compare, _differences, _fails_own_check
from samples import Sample
from ties import same_but_for_ties, same_gradient_but_for_ties
from torch.testing._internal.opinfo.core import SampleInput

TABLE = entries()


def sample(name: str, value: Any, *arguments: Any, **keywords: Any) -> Sample:
    return Sample(TABLE[name], SampleInput(value, args=arguments, kwargs=keywords), "cpu")


def accepted(actual: float, expected: float, exact: float, kind: Any = torch.float32) -> bool:
    values = [torch.tensor([each], dtype=kind) for each in (actual, expected)]
    wide = torch.tensor([exact], dtype=torch.float64)
    limits = comparison.DEFAULTS[kind]
    return comparison.same(values[0], comparison.nearer(*values, wide, *limits), *limits) is None


@pytest.mark.parametrize(
    ("actual", "expected", "exact", "passes"),
    [
        (1.0, 1.0001, 1.0, True),  # ours is the exact one
        (1.00009, 1.0001, 1.0, True),  # no farther than PyTorch's
        (0.9999, 1.0001, 1.0, True),  # as far, on the other side
        (0.9998, 1.0001, 1.0, False),  # farther
        (1.5, 2.0, 1.0, False),  # PyTorch's is no rounding of the exact one: something else is compared
        (float("nan"), 1.0001, 1.0, False),
    ],
)
def test_float64_decides(actual: float, expected: float, exact: float, passes: bool) -> None:
    assert accepted(actual, expected, exact) is passes


def test_float64_decides_for_16_bits() -> None:
    assert accepted(1.0, 1.0625, 1.0, torch.bfloat16)
    assert not accepted(0.875, 1.0625, 1.0, torch.bfloat16)


def test_types_asked_for_are_widened_too() -> None:
    wide = sample("linspace", -2.0, 1.0, 50, dtype=torch.bfloat16).wide()
    assert wide is not None
    assert wide.sample.kwargs["dtype"] is torch.float64
    assert sample("linspace", -2.0, 1.0, 50).wide() is None


def test_ties_leave_indices_open() -> None:
    values = torch.tensor([2.0, 1.0, 2.0])
    first, other, twice = (torch.tensor(each) for each in ([1, 0, 2], [1, 2, 0], [1, 2, 2]))
    ordered = torch.tensor([1.0, 2.0, 2.0])
    usual = sample("sort", values)
    assert same_but_for_ties(usual, (ordered, other), (ordered, first))
    assert not same_but_for_ties(usual, (ordered, twice), (ordered, first))
    assert not same_but_for_ties(usual, (ordered, torch.tensor([0, 1, 2])), (ordered, first))
    assert not same_but_for_ties(sample("sort", values, stable=True), (ordered, other), (ordered, first))
    assert same_but_for_ties(sample("topk", values, 1, 0, True), (values[:1], other[1:2]), (values[:1], first[1:2]))
    assert not same_but_for_ties(sample("max.reduction_with_dim", values, 0), first, other)


def test_ties_leave_gradients_open() -> None:
    values = torch.tensor([2.0, 1.0, 2.0])
    gradients = [torch.tensor(each) for each in ([5.0, 7.0, 3.0], [3.0, 7.0, 5.0], [3.0, 5.0, 7.0])]
    usual = sample("sort", values)
    assert same_gradient_but_for_ties(usual, gradients[1], gradients[0], 1e-6, 1e-6)
    assert not same_gradient_but_for_ties(usual, gradients[2], gradients[0], 1e-6, 1e-6)
    assert not same_gradient_but_for_ties(sample("exp", values), gradients[1], gradients[0], 1e-6, 1e-6)


def test_differences_decide_where_pytorchs_gradients_are_not_those() -> None:
    entry = TABLE["as_strided_scatter"]
    assert _fails_own_check(entry) and not _fails_own_check(TABLE["select_scatter"])
    leaf = torch.arange(4.0, requires_grad=True)
    call = sample("as_strided_scatter", leaf, torch.ones(2), (2,), (2,))
    seeds = [torch.tensor([1.0, 2.0, 3.0, 4.0])]
    torch.testing.assert_close(_differences(call, seeds, 0), torch.tensor([0.0, 2.0, 0.0, 4.0], dtype=torch.float64))
    limits = comparison.DEFAULTS[torch.float32]
    theirs = torch.autograd.grad(call.expected(), leaf, seeds[0])[0]
    right, wrong = (ours.tensor(each) for each in ([0.0, 2.0, 0.0, 4.0], [1.0, 2.0, 0.0, 4.0]))
    assert _compare(call, right, theirs, seeds, 0, limits) == (None, True)
    assert _compare(call, wrong, theirs, seeds, 0, limits)[0] is not None
