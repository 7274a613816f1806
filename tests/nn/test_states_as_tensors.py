"""What optimisers remember looks as in PyTorch: counts of steps are tensors that count on, and what is written into them counts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ["Adam", "AdamW", "Adamax", "Adadelta", "Adagrad", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD", "Adafactor"]
ACTIONS = [
    "step", "read", "hold", "fill", "assign", "add", "save", "load", "copy", "pickle", "clear", "merge",
]  # fmt: skip


def shown(value: Any) -> Any:
    return (str(value.dtype), tuple(value.shape), value.tolist()) if hasattr(value, "tolist") else value


class Run:
    """An optimiser of one library, and all that its user saw."""

    def __init__(self, library: Any, name: str) -> None:
        self.library, self.name = library, name
        with library.device("cpu"):
            self.begin(library.tensor([[1.0, -2.0], [0.5, 3.0]]))
        self.seen: list[Any] = []
        self.held: list[Any] = []
        self.saved: Any = None

    def begin(self, values: Any) -> None:
        parameter = self.library.nn.Parameter(values.detach().clone())
        self.optimizer = getattr(self.library.optim, self.name)([parameter], lr=0.1)

    @property
    def parameter(self) -> Any:
        return self.optimizer.param_groups[0]["params"][0]

    def act(self, action: str) -> None:
        library, optimizer, parameter = self.library, self.optimizer, self.parameter
        state = optimizer.state[parameter]
        if action == "step":
            parameter.grad = library.sin(parameter.detach())
            optimizer.step()
        elif action == "read":
            self.seen.append({name: shown(value) for name, value in state.items()})
        elif action == "save":
            self.saved = copy.deepcopy(optimizer.state_dict())
            self.seen.append(list(self.saved["state"]))
        elif action == "load" and self.saved is not None:
            self.begin(parameter)
            self.optimizer.load_state_dict(copy.deepcopy(self.saved))
        elif action == "copy":
            self.optimizer = copy.deepcopy(optimizer)
        elif action == "pickle":
            self.optimizer = pickle.loads(pickle.dumps(optimizer))
        elif action == "clear" and self.name != "Adagrad":
            optimizer.state.clear()
        elif "step" in state:
            self.write(action, state)
        self.seen.append(self.parameter.tolist())
        self.seen.append([shown(each) for each in self.held])

    def write(self, action: str, state: Any) -> None:
        if action == "hold":
            self.held.append(state["step"])
            assert state["step"] is self.held[-1]
        elif action == "fill":
            state["step"].fill_(7.0)
        elif action == "add":
            state["step"] += 3
        elif action == "assign":
            state["step"] = self.library.tensor(4.0, device="cpu")
        elif action == "merge":
            self.seen.append({name: shown(value) for name, value in {**state, **dict(state)}.items()})
            self.seen.append(
                (len(state), list(state), "step" in state, state.get("absent", 3), isinstance(state, dict))
            )


def close(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(close, one, other))
    return one == pytest.approx(other, rel=2e-5, abs=2e-6) if isinstance(one, float) else one == other


@settings(deadline=None)
@given(name=st.sampled_from(NAMES), actions=st.lists(st.sampled_from(ACTIONS) | st.just("step"), max_size=12))
def test_states_are_pytorchs(name: str, actions: list[str]) -> None:
    runs = [Run(library, name) for library in (torch, ours)]
    for action in ["step", *actions, "read"]:
        for run in runs:
            run.act(action)
    assert close(runs[1].seen, runs[0].seen), (runs[1].seen, runs[0].seen)


class Counting:
    """Mixed into an optimiser: a rule of the program's own that counts by Python's numbers."""

    def step(self) -> None:
        for group in self.param_groups:  # type: ignore[attr-defined]
            for parameter in group["params"]:
                state = self.state[parameter]  # type: ignore[attr-defined]
                state["step"] = state.get("step", 0) + 1
                state["mu"] = 0.5


def test_numbers_of_an_optimiser_of_ones_own_stay_numbers() -> None:
    for library in (torch, ours):
        kind = type("Own", (Counting, library.optim.Optimizer), {})
        optimizer = kind([library.nn.Parameter(library.ones(2))], {"lr": 0.1})
        optimizer.step()
        state = optimizer.state_dict()["state"][0]
        assert state == {"step": 1, "mu": 0.5} and type(state["step"]) is int
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        optimizer.step()
        assert type(optimizer.state_dict()["state"][0]["step"]) is int


def test_replays_count() -> None:
    parameter = ours.nn.Parameter(ours.ones(3, device="cpu"))
    optimizer = ours.optim.Adam([parameter], lr=0.1)

    def step() -> None:
        parameter.grad = parameter.detach() * 2
        optimizer.step()

    compiled = ours.compile(step)
    for number in range(1, 7):
        compiled()
        count = optimizer.state[parameter]["step"]
        assert count.item() == number
    optimizer.state[parameter]["step"] += 35
    compiled()
    assert optimizer.state[parameter]["step"].item() == 42
