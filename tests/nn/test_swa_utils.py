"""Averaged models, their statistics and their schedule equal PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from nn_oracle import close, copy_weights, to_ours

AVERAGES: dict[str, Any] = {
    "default": lambda library: {},
    "ema": lambda library: {"avg_fn": library.optim.swa_utils.get_ema_avg_fn(0.8)},
    "multi_ema": lambda library: {"multi_avg_fn": library.optim.swa_utils.get_ema_multi_avg_fn(0.8)},
    "swa": lambda library: {"avg_fn": library.optim.swa_utils.get_swa_avg_fn()},
    "multi_swa": lambda library: {"multi_avg_fn": library.optim.swa_utils.get_swa_multi_avg_fn()},
    "buffers": lambda library: {"use_buffers": True},
    "buffers_ema": lambda library: {
        "use_buffers": True,
        "multi_avg_fn": library.optim.swa_utils.get_ema_multi_avg_fn(0.5),
    },
    "own": lambda library: {"avg_fn": lambda average, value, count: average * 0.3 + value * 0.7 / (count + 1)},
}


def model_of(library: Any) -> Any:
    return library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4), library.nn.Linear(4, 2))


def pair(device: str) -> tuple[Any, Any]:
    torch.manual_seed(2)
    theirs = model_of(torch)
    mine = model_of(ours).to(device)
    copy_weights(theirs, mine, device)
    return theirs, mine


def compare(mine: Any, theirs: Any) -> None:
    expected = theirs.state_dict()
    found = mine.state_dict()
    assert list(found) == list(expected)
    for key, value in expected.items():
        close(found[key], value)


@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name: str, device: str) -> None:
    theirs, mine = pair(device)
    averaged = torch.optim.swa_utils.AveragedModel(theirs, **AVERAGES[name](torch))
    my_averaged = ours.optim.swa_utils.AveragedModel(mine, **AVERAGES[name](ours))
    optimizers = [torch.optim.SGD(theirs.parameters(), 0.1), ours.optim.SGD(mine.parameters(), 0.1)]
    for index in range(5):
        x = torch.randn(6, 3)
        for optimizer, model, value in zip(optimizers, (theirs, mine), (x, to_ours(x, device)), strict=True):
            optimizer.zero_grad()
            (model(value) ** 2).sum().backward()
            optimizer.step()
        averaged.update_parameters(theirs)
        my_averaged.update_parameters(mine)
        compare(my_averaged, averaged)
        if index == 2:
            # A count that comes from elsewhere is noticed.
            my_averaged.load_state_dict({key: to_ours(value, device) for key, value in averaged.state_dict().items()})
    x = torch.randn(5, 3)
    close(my_averaged(to_ours(x, device)), averaged(x), 1e-4, 1e-5)


def test_a_copy_averages_on(device: str) -> None:
    _, mine = pair(device)
    first = ours.optim.swa_utils.AveragedModel(mine)
    first.update_parameters(mine)
    second = copy.deepcopy(first)
    with ours.no_grad():
        for parameter in mine.parameters():
            parameter.add_(1.0)
    for each in (first, second):
        each.update_parameters(mine)
        assert each.n_averaged.item() == 2
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert one.tolist() == other.tolist()


def test_averaging_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, mine = pair("cpu")
    averaged = ours.optim.swa_utils.AveragedModel(mine)
    averaged.update_parameters(mine)

    def refuse(*_: Any) -> None:
        raise RuntimeError("a value was read")

    monkeypatch.setattr(ours.Tensor, "item", refuse)
    averaged.update_parameters(mine)
    averaged.update_parameters(mine)


@pytest.mark.parametrize("wrapped", [False, True])
def test_statistics_of_batch_normalisation(wrapped: bool, device: str) -> None:
    theirs, mine = pair(device)
    batches = [torch.randn(8, 3) for _ in range(3)]
    torch.optim.swa_utils.update_bn([(each, 0) if wrapped else each for each in batches], theirs)
    moved = [to_ours(each) for each in batches]
    mine.eval()
    ours.optim.swa_utils.update_bn([[each, 0] if wrapped else each for each in moved], mine, device=device)
    compare(mine, theirs)
    assert mine[1].momentum == 0.1 and not mine.training and not mine[1].training


def test_models_without_statistics_are_not_called() -> None:
    ours.optim.swa_utils.update_bn(["no batch"], ours.nn.Linear(2, 2))


@pytest.mark.parametrize(
    "options",
    [
        {"swa_lr": 0.05},
        {"swa_lr": [0.05, 0.5], "anneal_epochs": 20, "anneal_strategy": "linear"},
        {"swa_lr": 0.05, "anneal_epochs": 0},
    ],
)
def test_schedule(options: dict[str, Any]) -> None:
    histories = []
    for library in (torch, ours):
        groups = [{"params": [library.ones(1, requires_grad=True)], "lr": lr} for lr in (0.4, 0.2)]
        optimizer = library.optim.SGD(groups)
        schedule = library.optim.swa_utils.SWALR(optimizer, **options)
        before = library.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        history = []
        for index in range(30):
            optimizer.step()
            (before if index < 5 else schedule).step()
            history.append([group["lr"] for group in optimizer.param_groups])
        histories.append((history, set(schedule.state_dict())))
    assert histories[1] == histories[0]


@pytest.mark.parametrize(
    "act",
    [
        lambda library, optimizer: library.optim.swa_utils.get_ema_avg_fn(1.5),
        lambda library, optimizer: library.optim.swa_utils.get_ema_multi_avg_fn(-0.1),
        lambda library, optimizer: library.optim.swa_utils.SWALR(optimizer, 0.1, anneal_strategy="x"),
        lambda library, optimizer: library.optim.swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1),
        lambda library, optimizer: library.optim.swa_utils.SWALR(optimizer, [0.1, 0.2]),
        lambda library, optimizer: library.optim.swa_utils.AveragedModel(
            library.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max
        ),
    ],
)
def test_errors_are_pytorchs(act: Any) -> None:
    found = []
    for library in (torch, ours):
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], 0.1)
        with pytest.raises((ValueError, AssertionError)) as caught:
            act(library, optimizer)
        found.append((caught.type, str(caught.value)))
    assert found[1] == found[0]


def test_every_name_is_there() -> None:
    assert set(ours.optim.swa_utils.__all__) == set(torch.optim.swa_utils.__all__)
