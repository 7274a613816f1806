"""Positions outside of a dimension are errors: of operands known at the call, or computed before and read later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st
from test_view_properties import cases

#: of a namespace, a table of 3 by 4 and a 1-d index of one position; the flag says whether -1 is a position, too
CASES = {
    "gather": (lambda t, x, i: x.gather(0, i.reshape(1, 1)), False),
    "take": (lambda t, x, i: x.take(i * 4), True),
    "take_along_dim": (lambda t, x, i: x.take_along_dim(i.reshape(1, 1), 1), True),
    "index_select": (lambda t, x, i: x.index_select(0, i), False),
    "index": (lambda t, x, i: x[i], True),
    "index of a later dimension": (lambda t, x, i: x[:, i], True),
    "two indices": (lambda t, x, i: x[i, i], True),
    "assignment": (lambda t, x, i: x.__setitem__(i, 0.0), True),
    "index_put": (lambda t, x, i: x.index_put((i,), x[0, 0]), True),
    "index_put accumulate": (lambda t, x, i: x.index_put((i,), x[0, 0], True), True),
    "index_add": (lambda t, x, i: x.index_add(0, i, x[:1]), False),
    "index_copy": (lambda t, x, i: x.index_copy(0, i, x[:1]), False),
    "index_fill": (lambda t, x, i: x.index_fill(0, i, 1.0), True),
    "scatter": (lambda t, x, i: x.scatter(0, i.reshape(1, 1), x), False),
    "scatter of a number": (lambda t, x, i: x.scatter(0, i.reshape(1, 1), 1.0), False),
    "scatter_add": (lambda t, x, i: x.scatter_add(0, i.reshape(1, 1), x), False),
    "scatter_reduce": (lambda t, x, i: x.scatter_reduce(0, i.reshape(1, 1), x, "amax"), False),
    "embedding": (lambda t, x, i: t.nn.functional.embedding(i, x), False),
    "embedding_bag": (lambda t, x, i: t.nn.functional.embedding_bag(i.reshape(1, 1), x), False),
    "one_hot": (lambda t, x, i: t.nn.functional.one_hot(i, 3), False),
    "cross_entropy": (lambda t, x, i: t.nn.functional.cross_entropy(x[:1], i), False),
    "nll_loss": (lambda t, x, i: t.nn.functional.nll_loss(x[:1], i), False),
    "weighted": (lambda t, x, i: t.nn.functional.cross_entropy(x[:1], i, weight=x[1].detach()), False),
    "smoothed": (lambda t, x, i: t.nn.functional.cross_entropy(x[:1], i, label_smoothing=0.1), False),
}


@pytest.fixture
def late(device: str) -> str:
    """A device whose numbers the host cannot look at where they are."""
    return "python" if device == "cpu" else device


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("name", sorted(CASES))
def test_outside(name: str, computed: bool, device: str) -> None:
    call, wraps = CASES[name]
    for position in (7, -7, 2**32 + 1, *(() if wraps else (-1,))):
        x, index = ours.arange(12.0, device=device).reshape(3, 4), ours.tensor([position], device=device)
        index = index * 1 + 0 if computed else index
        with pytest.raises((IndexError, RuntimeError)) as caught:
            result = call(ours, x, index)
            ours.tensor(1.0, device=device).tolist()
            raise AssertionError(f"{position} gives {result}")
        if name not in ("take_along_dim", "embedding_bag"):
            # PyTorch's take_along_dim takes what is left of a division by the size.
            with pytest.raises((IndexError, RuntimeError)) as wanted:
                call(torch, torch.arange(12.0).reshape(3, 4), torch.tensor([position]))
            assert issubclass(caught.type, wanted.type)
        # It is told once.
        assert ours.tensor(1.0, device=device).tolist() == 1.0


@pytest.mark.parametrize("name", sorted(CASES))
def test_inside(name: str, device: str) -> None:
    call, wraps = CASES[name]
    for position in (0, 2, *((-1,) if wraps else ())):
        x, index = ours.arange(12.0, device=device).reshape(3, 4), ours.tensor([position], device=device) + 0
        result, wanted = call(ours, x, index), call(torch, torch.arange(12.0).reshape(3, 4), torch.tensor([position]))
        assert result is None or torch.allclose(
            torch.tensor(result.tolist()), wanted.to(torch.tensor(result.tolist()).dtype)
        )


def test_a_late_error_names_operation_index_and_size(late: str) -> None:
    index = ours.tensor([2, 9], device=late) + 0
    ours.arange(3.0, device=late)[index]
    with pytest.raises(IndexError, match=r"index\(\): index 9 is out of bounds for dimension 0 with size 3"):
        ours.zeros(2, device=late).tolist()


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("tracked", [False, True])
def test_the_host_looks_at_once_where_numbers_are(name: str, tracked: bool) -> None:
    call, _ = CASES[name]
    x = ours.arange(12.0).reshape(3, 4)
    for position in (0, 7, 1, -7, 2):
        if tracked:
            x = x.detach().requires_grad_() * 1
        # Computed by nobody yet.
        index = ours.tensor([position - 1]) + 1
        if 0 <= position < 3:
            call(ours, x, index)
            continue
        with pytest.raises((IndexError, RuntimeError)):
            call(ours, x, index)


def test_the_ignored_label_is_no_position(device: str) -> None:
    scores = torch.arange(8.0).reshape(2, 4)
    for ignored in (-100, 9):
        labels = torch.tensor([1, ignored])
        wanted = torch.nn.functional.cross_entropy(scores, labels, ignore_index=ignored).item()
        given = ours.tensor(labels.tolist(), device=device) + 0
        found = ours.nn.functional.cross_entropy(
            ours.tensor(scores.tolist(), device=device), given, ignore_index=ignored
        )
        assert abs(found.item() - wanted) < 1e-5


def test_checks_wait_for_a_reading_and_cost_one(late: str) -> None:
    table, index = ours.ones(5, 2, device=late), ours.arange(4, device=late) + 1
    engine = table._engine
    before, checks = (
        (engine.statistics["reads"], engine.statistics["flushes"]),
        (engine.recorder.reporting, engine.recorder.failed),
    )
    for _ in range(3):
        table = table + ours.nn.functional.embedding(index - 1, table).sum()
    assert (engine.statistics["reads"], engine.statistics["flushes"]) == before
    assert (engine.recorder.reporting, engine.recorder.failed) != checks
    table.tolist()
    assert engine.recorder.failed is None
    assert engine.statistics["reads"] == before[0] + 1


def test_gradients_check_nothing_again(device: str) -> None:
    table = ours.ones(5, 2, device=device, requires_grad=True)
    total = table[ours.arange(3, device=device) + 0].cumsum(0).sort(0).values.max(0).values.sum()
    total.item()
    checks = table._engine.recorder.reporting
    total.backward()
    assert table._engine.recorder.reporting == checks


def test_backward_of_a_custom_function_is_checked(device: str) -> None:
    class Wrong(ours.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad[ours.arange(3, device=grad.device) + 1]

    x = ours.ones(3, device=device, requires_grad=True)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        Wrong.apply(x).sum().backward()
        x.grad.tolist()


def test_each_thread_is_told_of_its_own(late: str) -> None:
    table = ours.ones(3, device=late)
    mine, told = table[ours.tensor([9], device=late) + 0], []

    def work() -> None:
        try:
            table[ours.tensor([(1 << 33) + 1], device=late) + 0].tolist()
        except IndexError as error:
            told.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(told) == 1 and f"index {(1 << 33) + 1} " in told[0]
    with pytest.raises(IndexError, match="index 9 "):
        mine.tolist()
    assert table.tolist() == [1.0] * 3


def test_what_is_read_may_not_matter(device: str) -> None:
    one = ours.ones(1, device=device).expand(4)
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        one[ours.tensor([4], device=device) + 0].tolist()


def test_positions_are_looked_at_each_time(device: str) -> None:
    table = ours.randn(5, 3).to(device)
    calls: list[Callable[[Any], Any]] = [
        lambda at: ours.nn.functional.embedding(at, table),
        lambda at: table.index_select(0, at),
        lambda at: table[at],
        lambda at: table[at, at % 3],
        lambda at: ours.nn.functional.one_hot(at, 5),
        lambda at: table.gather(0, at.unsqueeze(1)),
        lambda at: ours.zeros_like(table).scatter_add(0, at.unsqueeze(1), table),
        lambda at: ours.zeros_like(table).index_add(0, at, table[:2]),
    ]
    for call in calls:
        for positions, fails in (([0, 4], False), ([1, 3], False), ([2, 5], True), ([3, 3], False), ([9, 0], True)):
            at = ours.tensor(positions, device=device)
            if not fails:
                call(at).tolist()
                continue
            with pytest.raises((IndexError, RuntimeError)):
                call(at + 0).tolist()
            with pytest.raises((IndexError, RuntimeError)):
                call(at).tolist()


def test_positions_are_looked_at_in_every_thread(device: str) -> None:
    table = ours.randn(5, 3).to(device)

    def run(position: int) -> None:
        try:
            selected = table.index_select(0, ours.tensor([position], device=device))
            ours.accelerator.synchronize(device)
            (selected.sum() + table.sum()).item()
        except (IndexError, RuntimeError):
            wrong.append(position)

    wrong: list[int] = []
    for position in (1, 7, 2, 8):
        worker = threading.Thread(target=run, args=(position,))
        worker.start()
        worker.join()
    run(3)
    run(9)
    assert wrong == [7, 8, 9]


@cases(30)
@given(st.data())
def test_operations_that_look_at_the_same_positions(late: str, data: Any) -> None:
    """They run together; one position may be wrong, which one of them is named for."""
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "index": lambda x, at: x[at],
        "take": lambda x, at: x.take(at),
        "gather": lambda x, at: x.gather(0, at % 16),
        "one_hot": lambda x, at: ours.nn.functional.one_hot(at, 16),
    }
    length = data.draw(st.integers(1, 9))
    positions = data.draw(st.lists(st.integers(0, 15), min_size=length, max_size=length))
    names = data.draw(st.lists(st.sampled_from([*calls]), min_size=1, max_size=4))
    wrong = data.draw(st.sampled_from([None, 16, 40, -17, 2**32 + 1]))
    if wrong is not None:
        positions[data.draw(st.integers(0, length - 1))] = wrong
    x, at = ours.arange(16.0, device=late), ours.tensor(positions, device=late) + 0
    results = [calls[name](x, at) for name in names]
    looks = [name for name in names if name != "gather"]
    if wrong is None or not looks:
        for name, result in zip(names, results, strict=True):
            assert (result.argmax(-1) if name == "one_hot" else result.long()).tolist() == [
                each % 16 for each in positions
            ]
        return
    with pytest.raises((IndexError, RuntimeError), match=rf"({'|'.join(looks)})\(\): .*\(index {wrong}, size 16\)"):
        results[0].tolist()
    assert x.tolist() == [*range(16)]
