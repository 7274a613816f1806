"""Programs that read each result before they go on: kernels run at once, and nothing else is different."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import webgpu_torch as torch
from hypothesis import given, settings
from webgpu_torch_core.record.devices import canonical_device, engine_for, synchronize
from webgpu_torch_core.record.lone import LONE_AFTER

#: an operation of the program, and how its result is read, if it is
STEPS = st.tuples(
    st.sampled_from(["add", "same", "grow", "sum", "softmax", "sort", "write", "matmul"]),
    st.sampled_from(["tolist", "item", "numpy", "nothing"]),
)


PLACES = ["cpu", "webgpu"]


def read_alone(place: str) -> None:
    """Read single results as often as it takes."""
    numbers = torch.tensor([1.0, 2.0], device=place)
    for _ in range(LONE_AFTER + 1):
        (numbers + 1).tolist()


@pytest.fixture(params=PLACES)
def counted(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Read often enough for kernels to run at once; yields what tells how many results in a row were read alone.

    New tensors are on the device then.
    """
    engine: Any = engine_for(canonical_device(request.param))
    read_alone(request.param)
    with torch.device(request.param):
        yield lambda: engine.recorder.lone


def run(step: str, tensor: Any) -> Any:
    """Return the result of a step over a square of numbers."""
    if step == "write":
        tensor.mul_(0.5)
        return tensor
    return {
        "add": lambda: tensor + 1.5,
        "same": lambda: tensor * tensor,
        "grow": lambda: tensor.exp().clamp(max=4),
        "sum": lambda: tensor.sum(0, keepdim=True).expand_as(tensor).contiguous(),
        "softmax": lambda: torch.softmax(tensor, -1),
        "sort": lambda: tensor.sort(-1).values,
        "matmul": lambda: tensor @ tensor,
    }[step]()


def read(how: str, tensor: Any) -> Any:
    """Return what is read of a result."""
    if how == "tolist":
        return tensor.tolist()
    if how == "item":
        return tensor[0, 0].item()
    return tensor.cpu().numpy().copy().tolist() if how == "numpy" else None


@pytest.mark.parametrize("place", PLACES)
@settings(deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=30), st.booleans())
def test_reads_change_no_result(place: str, steps: list[tuple[str, str]], warm: bool) -> None:
    """The results of a program do not depend on what is read in between."""
    if warm:
        read_alone(place)
    start = torch.linspace(-2, 2, 16, device=place).reshape(4, 4)
    seen, expected = start.clone(), start.clone()
    results = []
    for step, how in steps:
        seen = run(step, seen)
        results.append((how, read(how, seen)))
    for (step, _), (how, result) in zip(steps, results, strict=True):
        expected = run(step, expected)
        wanted = read(how, expected)
        assert str(result) == str(wanted)
    assert str(seen.tolist()) == str(expected.tolist())


def test_a_chain_is_recorded_again(counted: Any) -> None:
    """Who goes on without reading gets what follows as one kernel."""
    assert counted() >= LONE_AFTER
    ones = torch.tensor([1.0, 1.0, 1.0])
    (ones + 1).tolist()
    first = ones + 1
    assert first._storage.value.buffer is not None
    second = first * 2
    third = second + first
    assert second._storage.value.buffer is None
    assert counted() == 0
    assert third.tolist() == [6.0, 6.0, 6.0]


def test_waiting_is_reading(counted: Any) -> None:
    """Who waits for the device after each operation has asked for its result."""
    ones = torch.tensor([1.0, 1.0, 1.0])
    ones.tolist()
    for _ in range(3):
        result = ones + 1
        assert result._storage.value.buffer is not None
        synchronize(ones.device)
    assert counted() >= LONE_AFTER
    assert result.tolist() == [2.0, 2.0, 2.0]


def test_gradients_of_what_ran_at_once(counted: Any) -> None:
    """Results that were read have the gradients of those that were not."""
    leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    result = leaf * leaf
    assert result.tolist() == [1.0, 4.0, 9.0]
    result.sum().backward()
    assert leaf.grad.tolist() == [2.0, 4.0, 6.0]


def test_what_is_found_wrong_is_raised(counted: Any) -> None:
    """A kernel that raises does so where its result is read, as one that is recorded, and the thread goes on."""
    table, wrong = torch.arange(6.0).reshape(3, 2), torch.tensor([7])
    with pytest.raises(IndexError):
        torch.nn.functional.embedding(wrong, table).tolist()
    assert (table + 1).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_compiled_functions_are_recorded(counted: Any) -> None:
    """What a compiled function does is recorded, however often results were read before."""
    function = torch.compile(lambda each: (each + 1) * 2)
    for number in range(4):
        assert function(torch.full((2,), float(number))).tolist() == [2.0 * number + 2] * 2


def test_threads_predict_for_themselves(counted: Any) -> None:
    """What one thread reads says nothing of another."""
    found = []
    ones = torch.tensor([1.0, 1.0])
    ones.tolist()
    thread = threading.Thread(target=lambda: found.append((ones + 1)._storage.value.buffer))
    thread.start()
    thread.join()
    assert found == [None]
