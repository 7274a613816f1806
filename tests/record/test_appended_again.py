"""What a remembered call appends to a tape it appends again, wherever its arguments come from."""

from __future__ import annotations

import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.record.devices import engine_for
from webgpu_torch_core.record.series import LONG
from webgpu_torch_core.replay.recipes import remembered


@remembered
def _long(a, b, c):
    """Return two results of many kernels, some of which read arguments late."""
    x = a.cumsum(0)
    for _ in range(LONG):
        x = (x * 0.5).cumsum(0) + b
    return x - c, x.flip(0)


def _plain(a, b, c):
    x = a.cumsum(0)
    for _ in range(LONG):
        x = (x * 0.5).cumsum(0) + b
    return x - c, x.flip(0)


#: how an argument comes: computed before, on the tape already, the same as the first, or seen by others
WAYS = ("computed", "recorded", "same", "shared")


def arguments(library, ways, numbers):
    """Return arguments that come in some ways."""
    made = []
    for way in ways:
        value = torch.from_numpy(numbers.numpy().copy())
        if way == "same" and made:
            made.append(made[0])
            continue
        if library is ours:
            value = ours.from_numpy(value.numpy()) if way == "shared" else ours.tensor(value.tolist())
        made.append(value + 1 if way == "recorded" else value)
    return made


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from(WAYS)] * 3), min_size=1, max_size=4), st.integers(1, 3))
def test_drawn_calls(calls, times: int) -> None:
    generator = torch.Generator().manual_seed(0)
    with ours.device("cpu"):
        for _ in range(times + 2):
            found, wanted = [], []
            for ways in calls:
                numbers = torch.randn(5, 3, generator=generator)
                found += _long(*arguments(ours, ways, numbers))
                wanted += _plain(*arguments(torch, ways, numbers))
            # Some results are never read.
            for one, other in list(zip(found, wanted, strict=True))[:: len(calls)]:
                torch.testing.assert_close(torch.tensor(one.tolist()), other)


def test_a_loop_has_one_plan() -> None:
    with ours.device("cpu"):
        engine = engine_for(ours.device("cpu"))
        weights = [ours.tensor(torch.randn(5, 3).tolist()) for _ in range(3)]
        counts = []
        for _ in range(6):
            first, second = _long(*weights)
            third, _ = _long(first, weights[1], second)
            third.sum().item()
            counts.append(engine.statistics["scheduled"])
    assert counts[-1] == counts[-3]
