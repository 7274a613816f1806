"""``Tensor.fetch``: reads that let other tasks of the event loop run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import webgpu_torch as torch
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICES = ["cpu", "python", *(["webgpu"] if torch.webgpu.is_available() else [])]


@pytest.fixture(params=DEVICES)
def place(request: pytest.FixtureRequest) -> str:
    return request.param


def finished(task: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a loop of its own: another test's browser may run one in this thread."""
    try:
        return asyncio.run(task)
    except RuntimeError as error:
        if "running event loop" in str(error):
            pytest.skip("a browser's driver runs an event loop in this thread")
        raise


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_what_is_fetched_is_the_tensor_on_the_host(data: st.DataObject) -> None:
    where = data.draw(st.sampled_from(DEVICES))
    shape = data.draw(st.lists(st.integers(0, 4), max_size=3))
    kind = data.draw(
        st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8, torch.complex64])
    )
    tensor = (torch.arange(torch.Size(shape).numel(), device=where).reshape(shape) - 2).to(kind)
    if len(shape) > 1 and data.draw(st.booleans()):
        tensor = tensor.transpose(0, -1)
    if shape and data.draw(st.booleans()):
        tensor = tensor[1:]
    found = finished(tensor.fetch())
    expected = tensor.cpu()
    assert (found.device, found.dtype, found.shape) == (expected.device, expected.dtype, expected.shape)
    assert found.stride() == expected.stride() and found.tolist() == expected.tolist()


def test_what_is_fetched_has_no_gradient_and_is_read_at_once(place: str) -> None:
    weights = torch.ones(3, device=place, requires_grad=True)

    async def read() -> torch.Tensor:
        return await (weights * 2).fetch()

    found = finished(read())
    assert not found.requires_grad and found.tolist() == [2.0] * 3
    # Overwriting the source later does not reach it, wherever it was.
    with torch.no_grad():
        weights.zero_()
    assert found.tolist() == [2.0] * 3


def test_others_run_meanwhile(place: str) -> None:
    async def count(steps: list[int]) -> None:
        for number in range(3):
            steps.append(number)
            await asyncio.sleep(0)

    async def both() -> tuple[list[Any], list[int]]:
        steps: list[int] = []
        tensors = [torch.full((4,), float(each), device=place).sum() for each in range(3)]
        *found, _ = await asyncio.gather(*[each.fetch() for each in tensors], count(steps))
        return [each.item() for each in found], steps

    assert finished(both()) == ([0.0, 4.0, 8.0], [0, 1, 2])


def test_what_failed_is_raised_once(place: str) -> None:
    async def wrong() -> list[float]:
        table = torch.ones(2, 3, device=place)
        with pytest.raises(IndexError):
            await torch.nn.functional.embedding(torch.tensor([7], device=place), table).fetch()
        return (await table.sum().fetch()).tolist()

    assert finished(wrong()) == 6.0


def test_there_is_nothing_to_fetch_of_meta_and_under_vmap() -> None:
    with pytest.raises(NotImplementedError, match="no data"):
        finished(torch.ones(2, device="meta").fetch())
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda x: x.fetch())(torch.ones(2))


@pytest.mark.skipif("webgpu" not in DEVICES, reason="no WebGPU adapter")
def test_opening_what_is_open_does_nothing() -> None:
    kept = torch.ones(2, device="webgpu")
    finished(torch.webgpu.open())
    assert (kept + 1).tolist() == [2.0, 2.0]
