"""Optimiser steps under torch.compile: replays count, follow the schedule and notice loaded state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, copy_weights, to_ours
from webgpu_torch_core.record.devices import canonical_device, engine_for, flush
from webgpu_torch_core.replay.numbers import numbers

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("Adam", {"lr": 0.02, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.02, "betas": (0.8, 0.95)}),
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.05}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
    ("Adamax", {"lr": 0.02}),
    ("ASGD", {"lr": 0.02, "t0": 3}),
    ("Muon", {"lr": 0.02}),
    ("NAdam", {"lr": 0.02}),
    ("RAdam", {"lr": 0.02}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.9, "centered": True}),
    ("Rprop", {"lr": 0.02}),
]
#: those whose step is more than one kernel for a parameter: sums over rows, products of matrices
SEVERAL = {"Adafactor": 5, "Muon": 18}


class Training:
    """One model under one library, with a schedule that changes the learning rate after every step."""

    def __init__(self, library: Any, package: Any, name: str, options: dict[str, Any], device: str) -> None:
        # Muon is for matrices only.
        bias = name != "Muon"
        layers = package.Linear(4, 5, bias=bias), package.Tanh(), package.Linear(5, 2, bias=bias)
        self.model = package.Sequential(*layers).to(device)
        optim = torch.optim if library is torch else nn.optim
        self.optimizer = getattr(optim, name)(self.model.parameters(), **options)
        self.schedule = optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.5)
        self.step: Any = self.take

    def take(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = (self.model(x) ** 2).sum()
        loss.backward()
        self.optimizer.step()
        return loss

    def update(self) -> None:
        self.optimizer.step()

    def compiled(self) -> Training:
        self.step = ours.compile(self.take)
        return self


def three(name: str, options: dict[str, Any], device: str) -> list[Training]:
    """Return PyTorch's training, ours, and ours compiled, from the same weights."""
    torch.manual_seed(3)
    expected = Training(torch, torch.nn, name, options, "cpu")
    plain = Training(ours, nn, name, options, device)
    captured = Training(ours, nn, name, options, device).compiled()
    for each in (plain, captured):
        copy_weights(expected.model, each.model, device)
    return [expected, plain, captured]


def advance(trainings: list[Training], device: str, count: int) -> None:
    for _ in range(count):
        x = torch.randn(6, 4)
        losses = []
        for each in trainings:
            losses.append(each.step(x if each is trainings[0] else to_ours(x, device)))
            each.schedule.step()
        for each, loss in zip(trainings[1:], losses[1:], strict=True):
            close(loss, losses[0], rtol=1e-4, atol=1e-5)
            for a, b in zip(each.model.parameters(), trainings[0].model.parameters(), strict=True):
                close(a, b, rtol=1e-5, atol=2e-6)


def ten_captured_steps(name: str, options: dict, device: str) -> None:
    trainings = three(name, options, device)
    advance(trainings, device, 10)
    captured = trainings[2]
    # The first call makes the state and the gradients; RAdam's rule changes at the sixth, ASGD's mean begins at the fifth.
    recorded = {"ASGD": 3, "RAdam": 3}.get(name, 2)
    assert captured.step.statistics == {"recorded": recorded, "replayed": 10 - recorded, "fallbacks": 0}
    steps = [value.get("step") for value in captured.optimizer.state_dict()["state"].values()]
    assert all(each is None or each.item() == 10 for each in steps)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_ten_captured_steps_with_a_schedule(name: str, options: dict, device: str) -> None:
    ten_captured_steps(name, options, device)


@pytest.mark.parametrize(("name", "options"), OTHERS)
def test_captured_steps_of_the_other_optimizers(name: str, options: dict) -> None:
    ten_captured_steps(name, options, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OTHERS)
def test_captured_steps_of_the_other_optimizers_elsewhere(name: str, options: dict, device: str) -> None:
    ten_captured_steps(name, options, device)


@pytest.mark.parametrize(("name", "options"), [*CASES, *OTHERS])
def test_a_step_is_one_plan_of_few_kernels(name: str, options: dict) -> None:
    engine = engine_for(canonical_device("cpu"))
    training = Training(ours, nn, name, options, "cpu")
    training.take(ours.ones(6, 4))
    found = []
    # RAdam's first steps follow another rule.
    for _ in range(14):
        flush()
        before = dict(engine.statistics)
        training.update()
        found.append(
            {key: engine.statistics[key] - before[key] for key in ("flushes", "kernels", "scheduled", "reads")}
        )
    count = len(list(training.model.parameters()))
    assert {(each["flushes"], each["reads"]) for each in found} == {(1, 0)}
    assert all(each["kernels"] <= count * SEVERAL.get(name, 1) for each in found), found
    # Nothing is scheduled anew once all rules have been in force.
    assert [each["scheduled"] for each in found[8:]] == [0] * 6


@pytest.mark.slow_on("webgpu")
def test_loaded_state_is_recorded_anew(device: str) -> None:
    trainings = three("AdamW", {"lr": 0.02}, device)
    advance(trainings, device, 4)
    for each in trainings:
        each.optimizer.load_state_dict(each.optimizer.state_dict())
    advance(trainings, device, 3)
    assert trainings[2].step.statistics["replayed"] == 2 + 2
    assert trainings[2].optimizer.state_dict()["state"][0]["step"].item() == 7


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"])
def test_a_learning_rate_held_on_the_device(name: str, device: str) -> None:
    torch.manual_seed(4)
    expected = Training(torch, torch.nn, name, {"lr": 0.03}, "cpu")
    captured = Training(ours, nn, name, {"lr": ours.tensor(0.03, device=device)}, device).compiled()
    copy_weights(expected.model, captured.model, device)
    advance([expected, captured], device, 6)
    # RAdam's rule changes at the sixth.
    assert captured.step.statistics["replayed"] == (3 if name == "RAdam" else 4)


def test_a_live_number_is_no_option() -> None:
    options = {"alpha": 2.0}

    @ours.compile
    def change(x: Any) -> Any:
        return ours.add(x, x, alpha=numbers(options)["alpha"])

    with pytest.raises(TypeError, match="unhashable"):
        change(ours.ones(2))


def test_replays_write_into_shared_memory() -> None:
    import numpy

    memory = numpy.zeros(3, numpy.float32)
    shared, own = ours.from_numpy(memory), ours.zeros(3)

    def change(x: Any) -> Any:
        shared.add_(x)
        own.copy_(shared * 2)
        return shared + own

    compiled = ours.compile(change)
    for count in range(1, 4):
        assert compiled(ours.ones(3)).tolist() == [3.0 * count] * 3
        assert memory.tolist() == [float(count)] * 3 and own.tolist() == [2.0 * count] * 3
    assert compiled.statistics["replayed"] == 2
