"""Remembered updates: what a rule records for the second time is what it records by itself."""

from __future__ import annotations

from typing import Any

import pytest
import webgpu_torch as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch import optim, webgpu
from webgpu_torch.optim import Adam, AdamW
from webgpu_torch_core.record.apart import computed_apart
from webgpu_torch_core.record.devices import canonical_device, engine_for
from webgpu_torch_core.replay import updates
from webgpu_torch_core.replay.updates import Rule, apply_all

DEVICES = ["cpu", "python"]


def rule(x: Any, y: Any, z: Any, amount: float, flips: bool) -> None:
    x.mul_(amount).add_(y)
    z.sub_(x * y if flips else y)


remembered: Any = Rule(rule)


def made(device: str, *shape: int) -> tuple[Any, Any, Any]:
    torch.manual_seed(3)
    return torch.randn(shape, device=device), torch.randn(shape, device=device), torch.randn(shape, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
@pytest.mark.parametrize("flips", [False, True])
def test_repeated_calls_do_what_the_rule_does(device: str, shape: tuple[int, ...], flips: bool) -> None:
    ours, plain = made(device, *shape), made(device, *shape)
    with torch.no_grad():
        for amount in (0.5, 2, -1.25):
            remembered(*ours, amount, flips)
            rule(*plain, amount, flips)
    for one, other in zip(ours, plain, strict=True):
        assert one._version == other._version
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[1:], lambda x: x[:, 0]])
def test_views_and_arguments_that_share_memory(view: Any) -> None:
    ours, plain = made("cpu", 3, 3), made("cpu", 3, 3)
    with torch.no_grad():
        for _ in range(3):
            remembered(view(ours[0]), view(ours[1]), view(ours[0]), 0.5, True)
            rule(view(plain[0]), view(plain[1]), view(plain[0]), 0.5, True)
    assert torch.equal(ours[0], plain[0]) and torch.equal(ours[1], plain[1])


def test_numbers_that_a_rule_changes_are_not_kept() -> None:
    @Rule
    def doubled(x: Any, amount: float) -> None:
        x.add_(amount * 2)

    x = torch.zeros(2)
    with torch.no_grad():
        for amount in (1.0, 2.0, 4.0):
            doubled(x, amount)
    assert x.tolist() == [14.0, 14.0]


def test_memory_seen_from_outside_is_written_at_once() -> None:
    array = bytearray(8)
    x = torch.frombuffer(array, dtype=torch.float32)
    with torch.no_grad():
        for _ in range(2):
            remembered(x, torch.ones(2), torch.ones(2), 1.0, False)
    assert memoryview(array).cast("f").tolist() == [2.0, 2.0]


def test_integers_are_literals() -> None:
    @Rule
    def limited(x: Any, amount: float) -> None:
        x.copy_(torch.where(x > 1, amount, x.clamp(min=-2)))

    given = [-3.0, 0.5, 4.0]
    found = []
    with torch.no_grad():
        for amount in (1.0, 2.0, 0.0):
            x = torch.tensor(given) * 1
            limited(x, amount)
            found.append(x.tolist())
    assert found == [[-2.0, 0.5, 1.0], [-2.0, 0.5, 2.0], [-2.0, 0.5, 0.0]]


#: with every way in which their rules differ: by options, and by how many steps there were
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}), ("Adam", {"amsgrad": True, "weight_decay": 0.1}), ("AdamW", {}),
    ("RMSprop", {}), ("RMSprop", {"momentum": 0.9}), ("RMSprop", {"centered": True, "weight_decay": 0.1}),
    ("Adagrad", {}), ("Adagrad", {"lr_decay": 0.1, "maximize": True}), ("Adadelta", {}), ("Adamax", {}),
    ("NAdam", {}), ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}), ("ASGD", {}), ("ASGD", {"t0": 2}), ("Rprop", {}), ("Rprop", {"maximize": True}),
]  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", *(["webgpu"] if webgpu.is_available() else [])])
@pytest.mark.parametrize(("name", "options"), STEPS)
def test_a_step_is_a_kernel_for_each_parameter(name: str, options: dict[str, Any], device: str) -> None:
    made = [torch.ones(4, 5), torch.ones(7), torch.ones(4, 5), torch.ones(3, dtype=torch.complex64)]
    parameters = [torch.nn.Parameter(each.to(device)) for each in made]
    optimizer = getattr(optim, name)(parameters, lr=0.1, **options)
    engine = engine_for(canonical_device(device))
    recorded = []
    for _ in range(8):
        for each in parameters:
            each.grad = torch.ones_like(each)
        engine.flush()
        before = engine.statistics["recorded"]
        optimizer.step()
        engine.flush()
        recorded.append(engine.statistics["recorded"] - before)
    # RAdam has another rule from the sixth on, which the first of its kind is watched in.
    assert recorded[1:5] + recorded[6:] == [len(parameters)] * 6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [Adam, AdamW, lambda each: Adam(each, amsgrad=True)])
def test_the_first_step_has_the_plan_of_the_second(device: str, make: Any) -> None:
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4)).to(device)
    x, optimizer = torch.randn(5, 3, device=device), make(model.parameters())
    engine = engine_for(canonical_device(device))
    engine.flush()
    scheduled = []
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        engine.flush()
        scheduled.append(engine.statistics["scheduled"])
    assert scheduled[0] == scheduled[1] == scheduled[2]


def test_what_a_rule_leaves_elsewhere_stays() -> None:
    found: list[Any] = []

    @Rule
    def kept(x: Any, y: Any) -> None:
        found.append(x * y)
        x.add_(found[-1])

    x, y = torch.full((3,), 2.0), torch.full((3,), 3.0)
    with torch.no_grad():
        kept(x, y)
    assert x.tolist() == [8.0] * 3 and found[0].tolist() == [6.0] * 3
    assert x._version == 1


def test_what_is_computed_apart_leaves_the_tape_as_it_is() -> None:
    engine = engine_for(canonical_device("cpu"))
    engine.flush()
    x = torch.ones(3) + 1
    recorded, tape = len(engine.kernels), engine.tape
    with computed_apart(canonical_device("cpu")):
        y = torch.zeros(5) + 4
    assert engine.tape is tape and len(engine.kernels) == recorded > 0
    assert y._storage.value.buffer is not None and x._storage.value.buffer is None
    assert y.tolist() == [4.0] * 5 and x.tolist() == [2.0] * 3


other_rule: Any = Rule(lambda x, y, amount: x.add_(y * amount).clamp_(max=3))


@pytest.mark.parametrize("device", DEVICES)
def test_rules_applied_together_do_what_each_does(device: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        shapes = data.draw(st.lists(st.sampled_from([(3,), (2, 3), (5, 1)]), min_size=1, max_size=5))
        kinds = [data.draw(st.booleans()) for _ in shapes]
        # What one call changes another one may have, too.
        shared = data.draw(st.booleans())
        ours = [made(device, *shape) for shape in shapes]
        plain = [tuple(each.clone() for each in row) for row in ours]
        if shared:
            ours[-1], plain[-1] = (ours[0][0], *ours[-1][1:]), (plain[0][0], *plain[-1][1:])
            kinds[-1] = False
            if shapes[-1] != shapes[0]:
                return
        with torch.no_grad():
            for step in range(4):
                amounts = [0.25 * step + 0.5 * number for number in range(len(shapes))]
                calls = [
                    (remembered, (*row, amount, True)) if kind else (other_rule, (*row[:2], amount))
                    for row, kind, amount in zip(ours, kinds, amounts, strict=True)
                ]
                apply_all(calls)
                for row, kind, amount in zip(plain, kinds, amounts, strict=True):
                    _ = rule(*row, amount, True) if kind else other_rule.function(*row[:2], amount)
                # Some is read between the steps.
                if data.draw(st.booleans()):
                    assert ours[0][0].tolist() == plain[0][0].tolist()
        for row, wanted in zip(ours, plain, strict=True):
            for one, other in zip(row, wanted, strict=True):
                assert one.tolist() == other.tolist()
                assert one._version == other._version

    run()


def test_updates_of_all_parameters_are_recorded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = [torch.nn.Parameter(torch.ones(4, size)) for size in range(1, 6)]
    optimizer = optim.SGD(parameters, lr=0.1, momentum=0.9)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    repeated, repeat = [], updates._repeat
    monkeypatch.setattr(updates, "_repeat", lambda update, given: (repeated.append(update), repeat(update, given)))
    for _ in range(4):
        repeated.clear()
        optimizer.step()
    assert [len(each.writes) for each in repeated] == [2 * len(parameters)]
    assert {each for parameter in parameters for each in parameter.flatten().tolist()} == {parameters[0].tolist()[0][0]}
