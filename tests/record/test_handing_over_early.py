"""What repeats is handed over while the rest is being recorded: never through a kernel, and the results are the same bits."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import webgpu_torch as torch
from hypothesis import HealthCheck, given, settings
from webgpu_torch_core.record.ahead import FIRST
from webgpu_torch_core.record.devices import canonical_device, engine_for


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The engine of WebGPU, all of whose kernels are worth handing over."""
    if not torch.webgpu.is_available():
        pytest.skip("no WebGPU adapter")
    engine = engine_for(canonical_device("webgpu"))
    monkeypatch.setattr(engine.device, "seconds", lambda kernel: FIRST, raising=False)
    traces = dict(engine.recorder.ahead.traces)
    engine.recorder.ahead.traces.clear()
    yield engine
    engine.recorder.ahead.traces = traces


def _flushes(engine: Any, program: Any) -> tuple[int, list[bytes]]:
    torch.webgpu.synchronize()
    before = engine.statistics["flushes"]
    results = program()
    torch.webgpu.synchronize()
    flushes = engine.statistics["flushes"] - before
    return flushes, [each.contiguous().cpu().numpy().tobytes() for each in results]


def test_parts_double(engine: Any) -> None:
    x = [torch.randn(5, 7, device="webgpu") for _ in range(20)]

    def program() -> list[Any]:
        return [each.softmax(1) for each in x]

    found = [_flushes(engine, program) for _ in range(4)]
    # One, two, four and eight kernels, and what is left.
    assert [flushes for flushes, _ in found] == [1, 5, 5, 5]
    assert all(results == found[0][1] for _, results in found)


def test_nothing_is_cut_apart(engine: Any) -> None:
    a, b = (torch.randn(5, 7, device="webgpu") for _ in range(2))
    assert {_flushes(engine, lambda: [a.relu() + a * b])[0] for _ in range(4)} == {1}
    # One kernel reads the rows of both.
    assert {_flushes(engine, lambda: [a.sum(1), a.amax(1)])[0] for _ in range(4)} == {1}


def test_what_stays_alive_longer_than_before_is_not_stored_for_it(engine: Any) -> None:
    x = [torch.randn(5, 7, device="webgpu") for _ in range(4)]
    kernels = engine.statistics["kernels"]

    def program() -> list[Any]:
        kept = []
        for each in x:
            hidden = each * 2
            kept.append(hidden.softmax(1))
        return kept

    _flushes(engine, program)
    for _ in range(3):
        kernels = engine.statistics["kernels"]
        _flushes(engine, program)
        # The last result and what it is made of, no more: `hidden` has a name until the next is computed.
        assert engine.statistics["kernels"] - kernels <= 5


_STEPS = (
    lambda a, b: a + b,
    lambda a, b: a.softmax(1) * b,
    lambda a, b: a.sum(0) + b,
    lambda a, b: a @ b.t(),
    lambda a, b: a.cumsum(1),
    lambda a, b: a.clone().mul_(b),
    lambda a, b: a.sort(1).values,
)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.tuples(st.integers(0, len(_STEPS) - 1), st.integers(0, 5), st.booleans()), min_size=2, max_size=6))
def test_drawn_programs_are_bit_for_bit_what_they_were(engine: Any, steps: list[tuple[int, int, bool]]) -> None:
    torch.manual_seed(3)
    inputs = [torch.randn(6, 6, device="webgpu") for _ in range(3)]

    def program() -> list[Any]:
        values, kept = list(inputs), []
        for number, operand, keep in steps:
            made = _STEPS[number](values[operand % len(values)], values[-1] if operand > 3 else inputs[1])
            values.append(made)
            if keep:
                kept.append(made)
        return [*kept, made]

    first = _flushes(engine, program)[1]
    for _ in range(3):
        assert _flushes(engine, program)[1] == first
