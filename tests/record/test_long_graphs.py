"""Graphs of any length become kernels of bounded length, the same ones where a graph repeats itself."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.backend.interface import Step
from webgpu_torch_core.record import plans
from webgpu_torch_core.record.devices import engine_for
from webgpu_torch_core.scheduling.limits import Limits, kernel_length

#: functions of bounded slope and value, named as in both libraries
FUNCTIONS = ("sin", "tanh", "sigmoid", "erf", "cos", "atan")


def chained(library: Any, names: list[str], x: Any) -> Any:
    y = x
    for name in names:
        y = getattr(library, name)(y) * 0.5 + x
    return y


def planned(compute: Callable[[], Any], device: str) -> tuple[list[Any], Any]:
    """Return the kernels that computing took, and what was computed."""
    engine = engine_for(webgpu_torch.device(device))
    before = set(map(id, engine.plans.values()))
    result = compute().tolist()
    plans = [entry[0].plan for entry in engine.plans.values() if id(entry) not in before]
    return [step.kernel for plan in plans for step in plan.steps if isinstance(step, Step)], result


@settings(max_examples=20, deadline=None)
@given(
    names=st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=120),
    values=st.lists(st.floats(-2, 2), min_size=3, max_size=3),
)
def test_any_chain(names: list[str], values: list[float]) -> None:
    kernels, result = planned(lambda: chained(webgpu_torch, names, webgpu_torch.tensor(values)), "cpu")
    limits = Limits(engine_for(webgpu_torch.device("cpu")).device)
    assert all(kernel_length(limits, each) <= limits.length for each in kernels)
    assert result == pytest.approx(chained(torch, names, torch.tensor(values)).tolist(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_a_repeated_block_takes_few_kernels(device: str) -> None:
    x = webgpu_torch.linspace(-1, 1, 5, device=device)
    kernels, result = planned(lambda: chained(webgpu_torch, ["sin"] * 300, x), device)
    limits = Limits(engine_for(x.device).device)
    assert all(kernel_length(limits, each) <= limits.length for each in kernels)
    assert 4 < len(kernels) and len(set(kernels)) <= 4
    assert result == pytest.approx(chained(torch, ["sin"] * 300, torch.linspace(-1, 1, 5)).tolist(), rel=1e-4, abs=1e-5)


def test_a_step_longer_than_the_limit_stands_alone() -> None:
    x = webgpu_torch.linspace(1, 2, 5, device="webgpu")
    kernels, result = planned(lambda: x.lgamma() * 2 + x.digamma(), "webgpu")
    assert len(kernels) > 1
    given = torch.linspace(1, 2, 5)
    assert result == pytest.approx((given.lgamma() * 2 + given.digamma()).tolist(), rel=1e-4, abs=1e-6)


def test_a_loop_over_a_growing_sequence_is_planned_once() -> None:
    engine = engine_for(webgpu_torch.device("cpu"))
    known = webgpu_torch.linspace(0, 1, 700)
    known.tolist()

    def loop() -> float:
        return sum((known[:count].cumsum(0) * 2).sum().item() for count in range(40, 700))

    first, planned_first = loop(), engine.statistics["scheduled"]
    assert loop() == first
    assert engine.statistics["scheduled"] == planned_first


def test_plans_not_used_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PLANS_KEPT", 8)
    monkeypatch.setattr(plans, "KERNELS_KEPT", 40)
    kept = plans.Plans()
    for number in range(40):
        structure: Any = (number,)
        kept.keep(structure, (SimpleNamespace(used=number), [None] * 4))  # type: ignore[arg-type]
        assert kept.recorded == 4 * len(kept) <= 44
    assert {(0,), (1,)}.isdisjoint(kept) and (39,) in kept
