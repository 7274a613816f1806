"""Programs drawn at random, each run compiled and uncompiled: results, buffers, gradients and types agree at every step."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import webgpu_torch as torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch import nn


class Program:
    """A small network with all that its function depends on; ``compiled`` or not."""

    def __init__(self, device: str, compiled: bool) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model: Any = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.0), nn.Linear(4, 2)).to(device)
        self.factor = 1.0
        self.options: Any = {"shift": [0.0, 1.0], "sign": 1}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.handles: list[Any] = []
        self.modes: list[Callable[[], Any]] = []
        factor_of = lambda: self.factor  # noqa: E731

        def forward(x: Any, options: Any) -> Any:
            made = self.model(x) * factor_of() + options["shift"][0] * options["sign"]
            return made, torch.ones(2) * options["shift"][1]

        def train(x: Any) -> Any:
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss.detach()

        self.forward = torch.compile(forward) if compiled else forward
        self.train = torch.compile(train) if compiled else train

    def call(self, x: Any) -> list[Any]:
        with ExitStack() as stack:
            for mode in self.modes:
                stack.enter_context(mode())
            return list(self.forward(x.to(next(self.model.parameters()).dtype), self.options))


def replace(program: Program, number: int) -> None:
    weight = program.model[0].weight
    weight.data = weight.data * (1 + number / 4)


def assign(program: Program, number: int) -> None:
    state = {
        name: each * (1 + number / 8) if each.is_floating_point() else each.clone()
        for name, each in program.model.state_dict().items()
    }
    program.model.load_state_dict(state, assign=True)


def set_mode(program: Program, number: int) -> None:
    device = program.device
    program.modes = [
        [],
        [torch.no_grad],
        [torch.inference_mode],
        [torch.no_grad, lambda: torch.autocast(device, torch.bfloat16 if device == "cpu" else torch.float16)],
        [lambda: torch.device(device), torch.no_grad],
    ][number % 5]


def add_hook(program: Program, number: int) -> None:
    if program.handles:
        program.handles.pop().remove()
    else:
        hook = lambda module, given, result: result + number  # noqa: E731
        program.handles.append(program.model[number % 4].register_forward_hook(hook))


def submodule(program: Program, number: int) -> None:
    torch.manual_seed(number)
    program.model[3] = nn.Linear(4, 2, bias=number % 2 == 0).to(program.device)
    program.optimizer = torch.optim.SGD(program.model.parameters(), lr=0.1, momentum=0.9)


def shift(program: Program, number: int) -> None:
    program.options["shift"][number % 2] = float(number)


def grow(program: Program, number: int) -> None:
    program.options["shift"].append(float(number))


ACTIONS: dict[str, Callable[[Program, int], Any]] = {
    "train": lambda program, number: program.model.train(number % 2 == 0),
    "eval a part": lambda program, number: program.model[1 + number % 2].eval(),
    "replace data": replace,
    "assign": assign,
    "write": lambda program, number: program.model[3].weight.data.mul_(1 + number / 4),
    "mode": set_mode,
    "factor": lambda program, number: setattr(program, "factor", 1.0 + number),
    "shift": shift,
    "grow": grow,
    "sign": lambda program, number: program.options.__setitem__("sign", number % 3 - 1),
    "new options": lambda program, number: setattr(program, "options", {"shift": [float(number), 1.0], "sign": 1}),
    "hook": add_hook,
    "dropout": lambda program, number: setattr(program.model[2], "p", float(number % 2)),
    "submodule": submodule,
    "eps": lambda program, number: setattr(program.model[1], "eps", 10.0**-number),
    "requires_grad": lambda program, number: program.model[0].requires_grad_(number % 2 == 0),
    "no bias": lambda program, number: setattr(program.model[0], "bias", None),
    "clear": lambda program, number: program.optimizer.zero_grad(number % 2 == 0),
    "rate": lambda program, number: program.optimizer.param_groups[0].__setitem__("lr", 0.05 * (number + 1)),
    "momentum": lambda program, number: program.optimizer.param_groups[0].__setitem__("momentum", 0.5 * (number % 2)),
    "state": lambda program, number: program.optimizer.load_state_dict(program.optimizer.state_dict()),
}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.integers(1, 3)),
        st.tuples(st.just("step"), st.integers(1, 3)),
        st.tuples(st.sampled_from(sorted(ACTIONS)), st.integers(0, 7)),
    ),
    min_size=3,
    max_size=14,
)


def compare(ours: Any, expected: Any, what: str) -> None:
    assert (ours is None) == (expected is None), what
    if ours is not None:
        assert ours.dtype is expected.dtype and ours.shape == expected.shape and ours.device == expected.device, what
        assert ours.requires_grad == expected.requires_grad, what
        close = torch.allclose(ours.float(), expected.float(), rtol=2e-2, atol=2e-2, equal_nan=True)
        assert close, (what, ours.tolist(), expected.tolist())


def run(device: str, program: list[tuple[str, int]]) -> None:
    pair = Program(device, True), Program(device, False)
    torch.manual_seed(1)
    x = torch.randn(4, 3, device=device)
    with warnings.catch_warnings():
        # Results that need gradients are not replayed, and a warning says so.
        warnings.filterwarnings("ignore", message="torch.compile")
        for place, (name, number) in enumerate([*program, ("call", 2)]):
            what = f"{place}: {name} {number}"
            if name == "call":
                for _ in range(number):
                    for found, expected in zip(*(each.call(x) for each in pair), strict=True):
                        compare(found, expected, what)
            elif name == "step":
                for _ in range(number):
                    if any(each.requires_grad for each in pair[1].model.parameters()):
                        compare(pair[0].train(x), pair[1].train(x), what)
            else:
                for each in pair:
                    ACTIONS[name](each, number)
            ours, expected = (dict(each.model.state_dict()) for each in pair)
            assert list(ours) == list(expected)
            for key in ours:
                compare(ours[key], expected[key], f"{what}: {key}")
            for found, wanted in zip(*(each.model.parameters() for each in pair), strict=True):
                compare(found.grad, wanted.grad, f"{what}: gradient")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_programs(program: list[tuple[str, int]]) -> None:
    run("cpu", program)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_programs_on_webgpu(program: list[tuple[str, int]]) -> None:
    run("webgpu", program)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_thousands_of_programs(program: list[tuple[str, int]]) -> None:
    run("cpu", program)


def train_in_threads(device: str, seconds: float, count: int = 8) -> None:
    """Let threads compile, train and call models of their own on one device, and compare with one thread's results."""

    def work(number: int, rounds: int) -> list[Any]:
        torch.manual_seed(0)
        model: Any = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
        with torch.no_grad():
            for each in model.parameters():
                each.copy_(torch.linspace(-1, 1, each.numel(), device=device).reshape(each.shape) * (number + 1) / 8)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        x = torch.linspace(-1, 1, 12, device=device).reshape(4, 3)

        @torch.compile
        def step() -> Any:
            optimizer.zero_grad()
            loss = (model(x) - shared).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        losses = [step() for _ in range(rounds)]
        with torch.no_grad():
            predict = torch.compile(lambda x: model(x) + shared)
            return [
                *(each.item() for each in losses),
                *predict(x).flatten().tolist(),
                *predict(x * 2).flatten().tolist(),
            ]

    shared = torch.full((2,), 0.5, device=device)
    expected = [work(number, 6) for number in range(count)]
    wrong: list[Any] = []
    rounds = [0] * count
    end = time.monotonic() + seconds

    def loop(number: int) -> None:
        try:
            while not wrong and (time.monotonic() < end or not rounds[number]):
                found = work(number, 6)
                rounds[number] += 1
                if found != pytest.approx(expected[number], rel=1e-4, abs=1e-5):
                    wrong.append((number, found, expected[number]))
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong, wrong[0]
    assert all(rounds)


def test_threads() -> None:
    train_in_threads("cpu", 3)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_threads_for_a_minute(device: str) -> None:
    train_in_threads(device, 60)
