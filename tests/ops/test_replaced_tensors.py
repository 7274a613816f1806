"""``torch.compile`` of functions that put new tensors where the next call finds them: running averages, caches, counters."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import webgpu_torch as ours

Update = Callable[[Any, Any], Any]


def in_dictionary(update: Update) -> Any:
    held = {"state": ours.zeros(2)}

    def step(x: Any) -> Any:
        held["state"] = update(held["state"], x)
        return held["state"] * 2

    return step


def in_list(update: Update) -> Any:
    held = [ours.zeros(2)]

    def step(x: Any) -> Any:
        held[0] = update(held[0], x)
        return held[0] * 2

    return step


def in_attribute(update: Update) -> Any:
    held = types.SimpleNamespace(state=ours.zeros(2))

    def step(x: Any) -> Any:
        held.state = update(held.state, x)
        return held.state * 2

    return step


def in_variable(update: Update) -> Any:
    held = ours.zeros(2)

    def step(x: Any) -> Any:
        nonlocal held
        held = update(held, x)
        return held * 2

    return step


def in_buffer(update: Update) -> Any:
    class Average(ours.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", ours.zeros(2))

        def forward(self, x: Any) -> Any:
            self.state = update(self.state, x)
            return self.state * 2

    return Average()


def in_module(update: Update) -> Any:
    class Average(ours.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # Of several elements, so that it is neither true nor false.
            self.state = ours.zeros(2)

        def forward(self, x: Any) -> Any:
            self.state = update(self.state, x)
            return self.state * 2

    return Average()


UPDATES: list[Update] = [
    lambda state, x: state * 0.9 + x,
    lambda state, x: x if x.ndim == 2 else x + state.flip(0),
    lambda state, x: (state + x)[:],
]


@pytest.mark.filterwarnings("ignore:torch.compile:UserWarning")
@pytest.mark.parametrize("place", [in_dictionary, in_list, in_attribute, in_variable, in_buffer, in_module])
@pytest.mark.parametrize("update", UPDATES)
def test_next_call_finds_what_the_last_one_put_there(place: Callable[[Update], Any], update: Update) -> None:
    plain, compiled = place(update), ours.compile(place(update))
    for number in range(7):
        x = ours.full((2,), float(number)) + ours.arange(2)
        assert compiled(x).tolist() == plain(x).tolist()


def test_a_cache_that_one_call_makes_is_replayed() -> None:
    held = {"state": ours.zeros(2)}

    def step(x: Any) -> Any:
        if not held["state"].is_inference() and len(held) == 1:
            held["made"] = x * 0 + 3
        return held["made"] * x

    compiled = ours.compile(step)
    assert [compiled(ours.full((2,), float(each))).sum().item() for each in range(5)] == [0, 6, 12, 18, 24]
    assert compiled.statistics["replayed"] >= 2


@pytest.mark.parametrize(
    ("options", "text"),
    [({"mode": "nope"}, "Unrecognized mode=nope"), ({"mode": "default", "options": {}}, "Either mode or options")],
)
def test_options_that_pytorch_refuses(options: dict[str, Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        ours.compile(lambda x: x, **options)
