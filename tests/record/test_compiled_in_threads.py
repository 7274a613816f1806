"""Threads that compile, train and generate on one device at the same time get what one thread gets alone."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import webgpu_torch as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch import nn
from webgpu_torch_models import GPT2Config, GPT2LMHeadModel

ROUNDS = 6


def numbered(model: Any, number: int) -> Any:
    """Give a model weights that are its thread's own."""
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.linspace(-1, 1, each.numel(), device=each.device).reshape(each.shape) * (number + 1) / 8)
    return model


def trained(device: str, number: int, shared: Any) -> list[float]:
    """Compile a training step and a prediction; return the losses and what is predicted."""
    model: Any = numbered(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device), number)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.linspace(-1, 1, 12, device=device).reshape(4, 3)

    @torch.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (model(x) - shared).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step() for _ in range(ROUNDS)]
    with torch.no_grad():
        predict = torch.compile(lambda x: model(x) + shared)
        return [
            *(each.item() for each in losses),
            *predict(x).flatten().tolist(),
            *predict(x * 2).flatten().tolist(),
        ]


def generated(device: str, number: int) -> list[float]:
    """Return the tokens that a model of the thread's own continues a prompt with, its steps captured."""
    config = GPT2Config(vocab_size=16, n_positions=16, n_embd=8, n_layer=1, n_head=2, eos_token_id=None)
    model = numbered(GPT2LMHeadModel(config).to(device).eval(), number)
    ids = torch.tensor([[1, 2 + number % 4, 3]], device=device)
    return [float(each) for each in model.generate(ids, max_new_tokens=8, compile=True)[0].tolist()]


def run_in_threads(device: str, seconds: float, count: int = 8) -> int:
    """Let threads work for so long and compare with one thread's results; return how many rounds they made."""
    shared = torch.full((2,), 0.5, device=device)
    work = lambda number: [*trained(device, number, shared), *generated(device, number)]  # noqa: E731
    expected = [work(number) for number in range(count)]
    wrong: list[Any] = []
    rounds = [0] * count
    end = time.monotonic() + seconds

    def loop(number: int) -> None:
        try:
            while not wrong and (time.monotonic() < end or not rounds[number]):
                found = work(number)
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
    return sum(rounds)


def test_threads() -> None:
    assert run_in_threads("cpu", 2) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_threads_for_a_minute(device: str) -> None:
    assert run_in_threads(device, 60) >= 16


def written_and_read(device: str, make: Any, steps: list[str]) -> list[list[float]]:
    """Return what was computed from a tensor between calls that write into it; nothing is read before the last."""
    x = torch.arange(4.0).to(device)
    write = make(lambda: x.mul_(0.5).add_(1))
    made: list[Any] = []
    for step in steps:
        if step == "write":
            write()
        elif step == "compute":
            made.append(x * 2 + len(made))
        else:
            other = threading.Thread(target=lambda: made.append(x.exp() - len(made)))
            other.start()
            other.join()
    return [each.tolist() for each in [*made, x]]


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
@settings(deadline=None)
@given(steps=st.lists(st.sampled_from(["write", "write", "compute", "compute in a thread"]), max_size=9))
def test_what_another_thread_has_yet_to_read_is_not_overwritten(device: str, steps: list[str]) -> None:
    found = written_and_read(device, torch.compile, ["write", "write", *steps])
    expected = written_and_read(device, lambda function: function, ["write", "write", *steps])
    assert found == [pytest.approx(each) for each in expected]
