"""Schedules: a hundred steps of each equal PyTorch's, also after a state dict has travelled from one to the other."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

#: what the schedules are made for: library -> optimiser
Maker = Callable[[Any], Any]
STEPS = 100


class Fading:
    """A callable with attributes, which a state dict keeps."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, step: float) -> float:
        return self.rate**step


def sequence(library: Any, optimizer: Any) -> Any:
    schedules = library.optim.lr_scheduler
    parts = [
        schedules.SequentialLR(
            optimizer,
            [schedules.LinearLR(optimizer, total_iters=15), schedules.ExponentialLR(optimizer, gamma=0.95)],
            milestones=[15],
        ),
        schedules.ConstantLR(optimizer, factor=0.1, total_iters=10),
        schedules.CosineAnnealingLR(optimizer, T_max=20),
    ]
    return schedules.SequentialLR(optimizer, parts, milestones=[20, 60])


def chain(library: Any, optimizer: Any) -> Any:
    schedules = library.optim.lr_scheduler
    return schedules.ChainedScheduler(
        [
            schedules.ConstantLR(optimizer, factor=0.1, total_iters=20),
            schedules.ExponentialLR(optimizer, gamma=0.97),
            schedules.CosineAnnealingLR(optimizer, T_max=30, eta_min=0.01),
        ]
    )


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", {"lr_lambda": lambda step: 0.95**step}),
    ("LambdaLR", {"lr_lambda": [Fading(0.9), Fading(0.97)]}),
    ("MultiplicativeLR", {"lr_lambda": lambda step: 1 - 1 / (step + 2)}),
    ("MultiplicativeLR", {"lr_lambda": [Fading(0.999), lambda step: 0.98]}),
    ("StepLR", {"step_size": 30}),
    ("StepLR", {"step_size": 7, "gamma": 0.8}),
    ("MultiStepLR", {"milestones": [30, 80]}),
    ("MultiStepLR", {"milestones": [5, 5, 60], "gamma": 0.3}),
    ("ConstantLR", {}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 60}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.2, "end_factor": 0.7, "total_iters": 80}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("ExponentialLR", {"gamma": 1.01}),
    ("PolynomialLR", {"total_iters": 70}),
    ("PolynomialLR", {"total_iters": 120, "power": 2.5}),
    ("CosineAnnealingLR", {"T_max": 20}),
    ("CosineAnnealingLR", {"T_max": 33, "eta_min": 0.02}),
    ("CosineAnnealingWarmRestarts", {"T_0": 10}),
    ("CosineAnnealingWarmRestarts", {"T_0": 6, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 12}),
    (
        "CyclicLR",
        {"base_lr": [0.01, 0.02], "max_lr": 0.1, "step_size_up": 5, "step_size_down": 9, "mode": "triangular2"},
    ),
    (
        "CyclicLR",
        {
            "base_lr": 0.01,
            "max_lr": 0.1,
            "step_size_up": 8,
            "mode": "exp_range",
            "gamma": 0.98,
            "cycle_momentum": False,
        },
    ),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 11, "scale_fn": Fading(0.7), "base_momentum": 0.5}),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 9, "scale_fn": Fading(0.9), "scale_mode": "iterations"},
    ),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 120}),
    ("OneCycleLR", {"max_lr": [0.3, 0.1], "epochs": 12, "steps_per_epoch": 10, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 110, "three_phase": True, "pct_start": 0.4, "div_factor": 5}),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 110, "cycle_momentum": False, "final_div_factor": 10}),
    ("ReduceLROnPlateau", {"patience": 3}),
    ("ReduceLROnPlateau", {"mode": "max", "factor": 0.5, "patience": 2, "cooldown": 4, "min_lr": [0.01, 0.05]}),
    ("ReduceLROnPlateau", {"threshold_mode": "abs", "threshold": 0.05, "patience": 1, "factor": 0.7}),
    ("ReduceLROnPlateau", {"mode": "max", "threshold_mode": "abs", "threshold": 0.02, "eps": 1e-3}),
]
BUILT: list[tuple[str, Callable[[Any, Any], Any]]] = [("SequentialLR", sequence), ("ChainedScheduler", chain)]


def optimizer_of(library: Any, kind: str = "SGD", lr: Any = None) -> Any:
    first, second = (library.ones(2, requires_grad=True) for _ in range(2))
    lr = lr or (lambda value: value)
    groups = [{"params": [first], "lr": lr(0.4)}, {"params": [second], "lr": lr(0.2)}]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(library.optim, kind)(groups, **options)


def build(library: Any, optimizer: Any, name: str, options: Any) -> Any:
    if callable(options):
        return options(library, optimizer)
    return getattr(library.optim.lr_scheduler, name)(optimizer, **copy.deepcopy(options))


def advance(optimizer: Any, schedule: Any, count: int, start: int = 0) -> list[Any]:
    """Take steps; return the rates and momenta after each."""
    found = []
    for index in range(start, start + count):
        optimizer.step()
        if type(schedule).__name__ == "ReduceLROnPlateau":
            # Better at first, then in waves.
            schedule.step(1 / (index + 1) + 0.3 * math.sin(index / 9))
        else:
            schedule.step()
        groups = optimizer.param_groups
        found.append([(group["lr"], group.get("momentum"), group.get("betas")) for group in groups])
    return [found, schedule.get_last_lr()]


# PyTorch, too, counts the making of a nested sequence as a step before the optimiser's.
EARLY = pytest.mark.filterwarnings("ignore:Detected call of")
CASES = [pytest.param(*each, id=f"{each[0]}-{index}") for index, each in enumerate(OPTIONS)]
CASES += [pytest.param(*each, id=each[0], marks=EARLY) for each in BUILT]


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_hundred_steps(name: str, options: Any, kind: str) -> None:
    histories = []
    for library in (torch, ours):
        optimizer = optimizer_of(library, kind)
        schedule = build(library, optimizer, name, options)
        histories.append(([group["lr"] for group in optimizer.param_groups], advance(optimizer, schedule, STEPS)))
    assert histories[1] == histories[0]


@pytest.mark.parametrize(("source", "target"), [(ours, torch), (torch, ours), (ours, ours)], ids=["to", "from", "own"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_state_travels(name: str, options: Any, source: Any, target: Any) -> None:
    first = optimizer_of(source)
    schedule = build(source, first, name, options)
    advance(first, schedule, STEPS // 2)
    state, saved = copy.deepcopy(schedule.state_dict()), copy.deepcopy(first.state_dict())
    expected = advance(first, schedule, STEPS // 2, STEPS // 2)
    second = optimizer_of(target)
    resumed = build(target, second, name, options)
    assert set(resumed.state_dict()) == set(state)
    resumed.load_state_dict(state)
    second.load_state_dict({"state": {}, "param_groups": saved["param_groups"]})
    assert advance(second, resumed, STEPS // 2, STEPS // 2) == expected


@pytest.mark.parametrize(("name", "options"), CASES)
def test_rates_held_by_tensors(name: str, options: Any) -> None:
    if name == "OneCycleLR":
        pytest.skip("starts from the highest rate, a number")
    found = []
    for library in (torch, ours):
        optimizer = optimizer_of(library, lr=library.tensor)
        held = [group["lr"] for group in optimizer.param_groups]
        schedule = build(library, optimizer, name, options)
        advance(optimizer, schedule, 40)
        assert all(group["lr"] is each for group, each in zip(optimizer.param_groups, held, strict=True))
        found.append([each.item() for each in held])
        assert [each.item() for each in schedule.get_last_lr()] == found[-1]
    assert found[1] == pytest.approx(found[0], rel=2e-6)


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize(("name", "options"), [each for each in OPTIONS if each[0] != "ReduceLROnPlateau"])
def test_a_chosen_epoch(name: str, options: Any) -> None:
    found = []
    for library in (torch, ours):
        optimizer = optimizer_of(library)
        schedule = build(library, optimizer, name, options)
        optimizer.step()
        history = []
        for epoch in (17, 4, 63):
            schedule.step(epoch)
            history.append(schedule.get_last_lr())
        found.append(history)
    assert found[1] == found[0]


def test_resuming_at_an_epoch() -> None:
    for name, options in OPTIONS[:-4]:
        found = []
        for library in (torch, ours):
            optimizer = optimizer_of(library)
            for group in optimizer.param_groups:
                group.update(
                    {"initial_lr": 0.4, "max_lr": 0.5, "min_lr": 0.1, "max_momentum": 0.9, "base_momentum": 0.7}
                )
            schedule = build(library, optimizer, name, {**options, "last_epoch": 8})
            found.append(advance(optimizer, schedule, 5))
        assert found[1] == found[0], name


def messages(library: Any, act: Callable[[Any, Any], Any]) -> list[tuple[Any, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act(library, optimizer_of(library))
    return [(each.category, str(each.message)[:60]) for each in caught]


def wrong_order(library: Any, optimizer: Any) -> None:
    library.optim.lr_scheduler.StepLR(optimizer, 2).step()


def overridden(library: Any, optimizer: Any) -> None:
    schedule = library.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    schedule.step()


def asked_directly(library: Any, optimizer: Any) -> None:
    library.optim.lr_scheduler.ExponentialLR(optimizer, 0.9).get_lr()


def an_epoch(library: Any, optimizer: Any) -> None:
    schedule = library.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    schedule.step(3)


def a_plateaus_epoch(library: Any, optimizer: Any) -> None:
    library.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step(1.0, 3)


@pytest.mark.parametrize("act", [wrong_order, overridden, asked_directly, an_epoch, a_plateaus_epoch])
def test_warnings_are_pytorchs(act: Callable[[Any, Any], Any]) -> None:
    assert messages(ours, act) == messages(torch, act) != []


BAD: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", {"lr_lambda": [lambda step: 1.0]}),
    ("MultiplicativeLR", {"lr_lambda": [lambda step: 1.0]}),
    ("MultiplicativeLR", {"lr_lambda": 3}),
    ("ConstantLR", {"factor": 1.5}),
    ("LinearLR", {"start_factor": 0}),
    ("LinearLR", {"end_factor": 2}),
    ("CosineAnnealingWarmRestarts", {"T_0": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "eta_min": "x"}),
    ("CyclicLR", {"base_lr": [0.1], "max_lr": 1}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1, "mode": "square"}),
    ("OneCycleLR", {"max_lr": 0.1}),
    ("OneCycleLR", {"max_lr": 0.1, "total_steps": -1}),
    ("OneCycleLR", {"max_lr": 0.1, "epochs": 0, "steps_per_epoch": 2}),
    ("OneCycleLR", {"max_lr": 0.1, "epochs": 2, "steps_per_epoch": 0}),
    ("OneCycleLR", {"max_lr": 0.1, "total_steps": 5, "pct_start": 2}),
    ("OneCycleLR", {"max_lr": 0.1, "total_steps": 5, "anneal_strategy": "x"}),
    ("ReduceLROnPlateau", {"factor": 1.0}),
    ("ReduceLROnPlateau", {"mode": "best"}),
    ("ReduceLROnPlateau", {"threshold_mode": "best"}),
    ("ReduceLROnPlateau", {"min_lr": [0.1]}),
    ("SequentialLR", {"schedulers": [], "milestones": []}),
    ("SequentialLR", {"schedulers": [1], "milestones": []}),
]


@pytest.mark.parametrize(("name", "options"), BAD)
def test_errors_are_pytorchs(name: str, options: dict[str, Any]) -> None:
    found = []
    for library in (torch, ours):
        with pytest.raises((ValueError, TypeError)) as caught:
            build(library, optimizer_of(library), name, options)
        found.append((caught.type, str(caught.value)))
    assert found[1] == found[0]


def test_too_many_steps_of_one_cycle() -> None:
    optimizer = optimizer_of(ours)
    schedule = ours.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        advance(optimizer, schedule, 4)


def test_schedules_need_an_optimizer_and_momentum() -> None:
    for name, options in OPTIONS:
        if name in ("LambdaLR", "MultiplicativeLR"):
            continue
        with pytest.raises(TypeError, match="str is not an Optimizer"):
            build(ours, "no optimizer", name, options)
    plain = ours.optim.Adagrad([ours.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        ours.optim.lr_scheduler.CyclicLR(plain, 0.1, 0.2)


def test_combined_schedules_refuse_what_they_cannot_step() -> None:
    schedules, optimizer = ours.optim.lr_scheduler, optimizer_of(ours)
    plateau, other = schedules.ReduceLROnPlateau(optimizer), schedules.StepLR(optimizer_of(ours), 2)
    for kind in (
        lambda each: schedules.SequentialLR(optimizer, [each], []),
        lambda each: schedules.ChainedScheduler([each], optimizer),
    ):
        with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
            kind(plateau)
        with pytest.raises(ValueError, match="belong to the same optimizer"):
            kind(other)


def test_every_schedule_is_there() -> None:
    assert set(ours.optim.lr_scheduler.__all__) == set(torch.optim.lr_scheduler.__all__)
