"""Triangles and positions written into memory that ``expand`` shows several times: as PyTorch writes them, with its warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch as oracle
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICES = ["cpu", "webgpu"]
sizes = st.lists(st.integers(0, 4), min_size=2, max_size=4)


@st.composite
def expanded(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Return sizes of memory and of what is shown of it."""
    shown = draw(sizes)
    return [1 if draw(st.booleans()) else size for size in shown], shown


def told(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except (RuntimeError, IndexError) as error:
            return (type(error), str(error)), []
    return found, [
        str(each.message).partition(" (Trig")[0] for each in caught if "expanded tensors" in str(each.message)
    ]


def memory(torch: Any, device: str, own: list[int], kind: str) -> Any:
    count = 1
    for each in own:
        count *= each
    values = oracle.arange(1, count + 1).reshape(own).to(getattr(oracle, kind))
    return torch.tensor(values.tolist(), dtype=getattr(torch, kind), device=device).reshape(own)


@pytest.mark.parametrize("device", DEVICES)
@settings(deadline=None)
@given(
    sizes=expanded(),
    name=st.sampled_from(["tril_", "triu_"]),
    diagonal=st.integers(-4, 4),
    kind=st.sampled_from(["float32", "int64", "bool"]),
)
def test_triangles(device: str, sizes: tuple[list[int], list[int]], name: str, diagonal: int, kind: str) -> None:
    def write(torch: Any, device: str) -> Any:
        found = memory(torch, device, sizes[0], kind)
        getattr(found.expand(sizes[1]), name)(diagonal)
        return found.tolist()

    assert told(lambda: write(webgpu_torch, device)) == told(lambda: write(oracle, "cpu"))


@pytest.mark.parametrize("device", DEVICES)
@settings(deadline=None)
@given(sizes=expanded(), accumulate=st.booleans(), data=st.data())
def test_positions(device: str, sizes: tuple[list[int], list[int]], accumulate: bool, data: st.DataObject) -> None:
    own, shown = sizes
    count = data.draw(st.integers(0, 4))
    indices: list[list[Any] | None] = []
    for size in shown[: data.draw(st.integers(1, len(shown)))]:
        lists = st.lists(st.integers(-size, max(size - 1, 0)), min_size=count, max_size=count)
        indices.append(data.draw(st.none() | lists))
    if all(each is None for each in indices) or 0 in shown:
        indices = [data.draw(st.lists(st.booleans(), min_size=shown[0], max_size=shown[0]))]
    single = data.draw(st.booleans())

    def write(torch: Any, device: str) -> Any:
        found = memory(torch, device, own, "float32")
        view = found.expand(shown)
        places = tuple(
            slice(None)
            if each is None
            else torch.tensor(each, device=device, dtype=torch.bool if True in each or False in each else torch.int64)
            for each in indices
        )
        shape = () if single else oracle.ones(shown)[tuple(_place(each) for each in indices)].shape
        values = (torch.arange(oracle.ones(shape).numel(), device=device) * 10.0).reshape(tuple(shape))
        if accumulate:
            torch.Tensor.index_put_(view, places, values, accumulate=True) if slice(None) not in places else None
        else:
            view[places] = values
        return found.tolist()

    assert told(lambda: write(webgpu_torch, device)) == told(lambda: write(oracle, "cpu"))


def _place(each: list[Any] | None) -> Any:
    return (
        slice(None)
        if each is None
        else oracle.tensor(each, dtype=oracle.bool if True in each or False in each else oracle.int64)
    )
