"""What repeats runs while the rest of it is being recorded: never more than before, and the results are the same bits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import webgpu_torch as torch
from hypothesis import HealthCheck, given, settings
from webgpu_torch_core.record import ahead
from webgpu_torch_core.record.devices import canonical_device, engine_for


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The engine of WebGPU, each of whose kernels is worth a part."""
    if not torch.webgpu.is_available():
        pytest.skip("no WebGPU adapter")
    engine = engine_for(canonical_device("webgpu"))
    monkeypatch.setattr(engine.device, "seconds", lambda kernel: engine.device.head_start, raising=False)
    monkeypatch.setattr(ahead, "MOST", engine.device.head_start)
    traces = dict(engine.recorder.ahead.traces)
    engine.recorder.ahead.traces.clear()
    yield engine
    engine.recorder.ahead.traces.clear()
    engine.recorder.ahead.traces.update(traces)


def _run(engine: Any, program: Any) -> tuple[int, int, list[bytes]]:
    """Return how many parts ran ahead, how many kernels in all, and the results."""
    torch.webgpu.synchronize()
    before = engine.statistics
    results = program()
    torch.webgpu.synchronize()
    after = engine.statistics
    found = [each.contiguous().cpu().numpy().tobytes() for each in results]
    return after["ahead"] - before["ahead"], after["kernels"] - before["kernels"], found


def test_parts_run_while_the_rest_is_recorded(engine: Any) -> None:
    x = [torch.randn(5, 7, device="webgpu") for _ in range(8)]
    found = [_run(engine, lambda: [each.softmax(1) for each in x]) for _ in range(4)]
    assert [parts for parts, *_ in found] == [0, 7, 7, 7]
    assert {kernels for _, kernels, _ in found} == {8}
    assert all(results == found[0][2] for *_, results in found)


def test_kernels_are_those_of_the_whole(engine: Any) -> None:
    a, b = (torch.randn(5, 7, device="webgpu") for _ in range(2))
    # One kernel; one that reads the rows of both; and a value that is computed in two kernels rather than stored.
    for program in (
        lambda: [a.relu() + a * b],
        lambda: [a.sum(1), a.amax(1)],
        lambda: [(a * 2).softmax(1) @ b.t(), (a * 2).sum(0)],
    ):
        found = [_run(engine, program) for _ in range(4)]
        assert len({kernels for _, kernels, _ in found}) == 1
        assert len({tuple(results) for *_, results in found}) == 1


def test_training_runs_ahead(engine: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    model.to("webgpu")
    start = {name: each.clone() for name, each in model.state_dict().items()}
    x, y = torch.randn(9, 6, device="webgpu"), torch.randint(0, 3, (9,), device="webgpu")

    def train() -> tuple[list[bytes], int]:
        model.load_state_dict(start)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        before = engine.statistics["ahead"]
        for _ in range(6):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            torch.webgpu.synchronize()
        results = [each.detach().cpu().numpy().tobytes() for each in (*model.state_dict().values(), loss)]
        return results, engine.statistics["ahead"] - before

    found, parts = train()
    assert parts >= 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead.Ahead, "reaches", lambda *_: False)
        assert train() == (found, 0)


def test_who_reads_in_the_middle_has_what_there_is(engine: Any) -> None:
    x = torch.randn(6, 6, device="webgpu")

    def program(reads: bool) -> list[Any]:
        a = x.softmax(1)
        b = a @ x
        c = b.cumsum(0)
        if reads:
            a.cpu(), b.sum().item()
        return [a, c.softmax(0), b]

    first = _run(engine, lambda: program(False))[2]
    for reads in (False, True, False, True, True, True, True, False):
        assert _run(engine, lambda: program(reads))[2] == first


def test_what_was_kept_only_once_is_computed_again(engine: Any) -> None:
    x = torch.randn(6, 6, device="webgpu")

    def program(keeps: bool) -> list[Any]:
        hidden = x * 2 + 1
        made = hidden.softmax(1)
        other = made @ x
        return [other.sum(0), hidden] if keeps else [other.sum(0)]

    for keeps in (False, False, True, True, False, True):
        results = _run(engine, lambda: program(keeps))[2]
        assert results[0] == _run(engine, lambda: program(False))[2][0]
        if keeps:
            assert results[1] == (x * 2 + 1).cpu().numpy().tobytes()


def test_what_overwrites_waits_for_who_reads(engine: Any) -> None:
    def program(keeps: bool) -> list[Any]:
        state = torch.ones(6, 6, device="webgpu")
        torch.webgpu.synchronize()
        before = state.view(-1).detach() if keeps else None
        old = state.clone() if keeps else None
        state.mul_(3.0)
        state.add_(state.softmax(1))
        made = state @ state
        return [made.sum(0), state] + ([old] if keeps and before is not None else [])

    wanted = {keeps: _run(engine, lambda: program(keeps))[2] for keeps in (False, True)}
    for keeps in (False, False, True, False, True, True):
        assert _run(engine, lambda: program(keeps))[2] == wanted[keeps]


def test_another_program_may_go_on_otherwise(engine: Any) -> None:
    x, w = (torch.randn(6, 6, device="webgpu") for _ in range(2))

    def program(other: bool) -> list[Any]:
        made = x.softmax(1) @ x
        if other:
            # Here the first program's next operand comes in.
            made = made.cumsum(0)
        return [(made @ w).sum(0)]

    wanted = {other: _run(engine, lambda: program(other))[2] for other in (False, True)}
    for other in (False, False, True, True, False, True):
        assert _run(engine, lambda: program(other))[2] == wanted[other]


def test_what_is_copied_first_may_come_in_last(engine: Any) -> None:
    first, index = torch.randn(3, 6, device="webgpu"), torch.tensor([2, 0, 2], device="webgpu")
    inputs = [torch.randn(6, 6, device="webgpu") for _ in range(3)]

    def program() -> list[Any]:
        # Each copies an input that nothing before it uses.
        return [each.index_add(0, index, first.softmax(1)) for each in inputs]

    found = [_run(engine, program) for _ in range(4)]
    assert found[-1][0] > 0
    assert len({tuple(results) for *_, results in found}) == 1


def test_errors_of_places_are_told(engine: Any) -> None:
    x, places = torch.randn(5, 4, device="webgpu"), torch.tensor([0, 4], device="webgpu")

    def program(at: Any) -> Any:
        return (x[at].softmax(1) @ x.t()).cumsum(1).sum(0)

    for _ in range(3):
        program(places).cpu()
    wrong = torch.tensor([0, 9], device="webgpu")
    for _ in range(2):
        with pytest.raises(IndexError):
            program(wrong).cpu()
    program(places).cpu()


def test_a_thread_may_want_what_another_records(engine: Any) -> None:
    x = torch.randn(6, 6, device="webgpu")
    found: list[bytes] = []

    def program(others: bool) -> list[Any]:
        a = x.softmax(1)
        b = a @ x
        if others:
            thread = threading.Thread(target=lambda: found.append(b.cpu().numpy().tobytes()))
            thread.start()
            thread.join()
        return [b, b.cumsum(0).softmax(1)]

    first = _run(engine, lambda: program(False))[2]
    for others in (False, True, False, True):
        assert _run(engine, lambda: program(others))[2] == first
    assert found == [first[0]] * 2


_STEPS = (
    lambda a, b: a + b,
    lambda a, b: a.softmax(1) * b,
    lambda a, b: a.sum(0) + b,
    lambda a, b: a @ b.t(),
    lambda a, b: a.cumsum(1),
    lambda a, b: a.clone().mul_(b),
    lambda a, b: a.sort(1).values,
    lambda a, b: a.mul_(0.5).add_(b.tanh()),
    lambda a, b: a.index_add(0, torch.tensor([2, 0, 2], device="webgpu"), b[:3]),
    lambda a, b: a.scatter_reduce(1, (b > 0).long(), b, "amax"),
    lambda a, b: a.index_copy(0, torch.tensor([1], device="webgpu"), b[1:2]),
)
_DRAWN = st.lists(
    st.tuples(st.integers(0, len(_STEPS) - 1), st.integers(0, 5), st.booleans(), st.integers(0, 5)),
    min_size=2,
    max_size=8,
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(_DRAWN, st.lists(st.booleans(), min_size=3, max_size=6))
def test_drawn_programs_are_bit_for_bit_what_they_were(
    engine: Any, steps: list[tuple[int, int, bool, int]], rounds: list[bool]
) -> None:
    """Programs that write in place, keep some results, and in some rounds read or keep others in the middle, or record others."""
    torch.manual_seed(3)
    given = [torch.randn(6, 6) for _ in range(3)]

    def program(unlike: bool) -> list[Any]:
        values, kept = [each.to("webgpu") for each in given], []
        late = [each.to("webgpu") for each in given]
        for number, operand, keep, event in steps:
            made = _STEPS[number](values[operand % len(values)], values[-1] if operand > 3 else values[1])
            values.append(made)
            if keep or (unlike and event == 1):
                kept.append((len(values), made))
            if unlike and event == 0:
                made.sum().item()
            if unlike and event in (2, 3):
                # Another program from here on: what comes in later has other slots.
                values[-1] = made = made * 3.0 if event == 2 else made + late[operand % 2]
            if event == 5:
                del values[0]
        return [*[each for _, each in kept], made]

    engine.recorder.ahead.traces.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead.Ahead, "reaches", lambda *_: False)
        wanted = {unlike: _run(engine, lambda: program(unlike))[2] for unlike in (False, True)}
    engine.recorder.ahead.traces.clear()
    for each in engine.plans.values():
        each[0].followed = False
    for unlike in (False, *rounds, False):
        assert _run(engine, lambda: program(unlike))[2] == wanted[unlike]
