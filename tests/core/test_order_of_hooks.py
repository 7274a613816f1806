"""When leaves get their gradients, as hooks see it: as soon as all of it has arrived, as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
import webgpu_torch_nn as nn
from hypothesis import given, settings
from hypothesis import strategies as st

OPERATIONS = {
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "sin": lambda a, b: a.sin(),
    "sub": lambda a, b: b - a,
}
STEP = st.tuples(st.sampled_from([*OPERATIONS]), st.integers(0, 20), st.integers(0, 20))


def seen(library: Any, steps: list[tuple[str, int, int]], wanted: bool, zeroed: bool) -> Any:
    """Return what hooks of a program's tensors see, in order, and the gradients that are left."""
    events: list[tuple[str, list[float]]] = []
    leaves = [library.tensor([0.5 + each, 1.5 - each]).requires_grad_() for each in range(3)]
    values = [*leaves]
    for name, one, other in steps:
        values.append(OPERATIONS[name](values[one % len(values)], values[other % len(values)]))
    for number, each in enumerate(values):
        each.register_hook(lambda gradient, number=number: events.append((str(number), gradient.tolist())))

    def accumulated(leaf: Any) -> None:
        events.append((f"grad {[leaf is each for each in leaves]}", leaf.grad.tolist()))
        if zeroed:
            with library.no_grad():
                leaf.grad.zero_()

    for each in leaves:
        each.register_post_accumulate_grad_hook(accumulated)
    if wanted:
        asked = [values[each] for each in (0, len(values) // 2)]
        found = library.autograd.grad(values[-1].sum(), asked, allow_unused=True)
        return events, [each if each is None else each.tolist() for each in found]
    values[-1].sum().backward()
    return events, [each.grad if each.grad is None else each.grad.tolist() for each in leaves]


@settings(deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=8), wanted=st.booleans(), zeroed=st.booleans())
def test_leaves_get_their_gradients_when_they_are_complete(
    steps: list[tuple[str, int, int]], wanted: bool, zeroed: bool
) -> None:
    found, expected = seen(ours, steps, wanted, zeroed), seen(torch, steps, wanted, zeroed)
    assert [name for name, _ in found[0]] == [name for name, _ in expected[0]]
    for one, other in zip(
        [each for _, each in found[0]] + found[1], [each for _, each in expected[0]] + expected[1], strict=True
    ):
        assert one == (other if other is None else pytest.approx(other, rel=1e-5, abs=1e-5))


def test_a_module_s_hook_finds_the_gradients_of_its_parameters() -> None:
    def program(library: Any, nn: Any) -> Any:
        events: list[str] = []
        model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
        for number in (0, 2):
            model[number].register_full_backward_hook(
                lambda module, *_, number=number: events.append(f"{number} {module.weight.grad is not None}")
            )
            model[number].bias.register_post_accumulate_grad_hook(
                lambda _, number=number: events.append(f"bias {number}")
            )
        model(library.ones(1, 2, requires_grad=True)).sum().backward()
        return events

    assert program(ours, nn) == program(torch, torch.nn) == ["bias 2", "2 True", "bias 0", "0 True"]


def test_leaves_that_get_less_than_was_on_its_way() -> None:
    class Doubled(ours.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * 2 + y

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            # A node that forgets where it came from sends nothing on.
            other.grad_fn.edges = ()
            return gradient * 2, gradient

    leaf, seen = ours.ones(2, requires_grad=True), []
    leaf.register_hook(lambda gradient: seen.append(gradient.tolist()))
    other = leaf * 3
    Doubled.apply(leaf, other).sum().backward()
    assert leaf.grad.tolist() == [2, 2] and seen == [[2, 2]]
