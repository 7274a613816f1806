"""Hooks and kept gradients of tensors that are written into: a hook stays with the value that it was registered for, as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours


def seen(library: Any, steps: list[tuple[str, int]]) -> Any:
    """Return what hooks see of a program's tensors, the kept gradients, and the leaf's."""

    class Mine(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(5)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 5

    events: list[Any] = []
    leaf = library.tensor([0.5, 1.5, -2.0], requires_grad=True)
    values = [leaf * 1]
    for number, (name, place) in enumerate(steps):
        chosen = values[place]
        if name == "hook":
            chosen.register_hook(lambda gradient, number=number: events.append((number, gradient.tolist())))
        elif name == "node":
            chosen.grad_fn.register_hook(lambda _, given, number=number: events.append((number, given[0].tolist())))
        elif name == "retain":
            chosen.retain_grad()
        elif name in ("view", "part"):
            values.append(chosen[:] if name == "view" else chosen[: max(1, len(chosen) - 1)])
        elif name == "double":
            values.append(chosen * 2)
        elif name == "fill":
            chosen[0] = 7.0
        elif name == "mine_":
            Mine.apply(chosen)
        else:
            getattr(chosen, name)(3)
    total: Any = sum((each * (number + 1)).sum() for number, each in enumerate(values))
    total.backward()
    kept = [each.grad if each.grad is None else each.grad.tolist() for each in values if each.retains_grad]
    return sorted(events), kept, leaf.grad.tolist()


# Drawn programs are no test here: PyTorch ends the process at some that write twice into what has hooks.
@pytest.mark.parametrize(
    "steps",
    [
        [("part", 0), ("hook", 1), ("mul_", 1)],
        [("part", 0), ("part", 1), ("hook", 1), ("mul_", 2)],
        [("part", 0), ("mul_", 1), ("hook", 1), ("mul_", 1), ("double", 1)],
        [("view", 0), ("view", 0), ("hook", 1), ("hook", 2), ("mul_", 1)],
        [("view", 0), ("hook", 1), ("retain", 1), ("mul_", 1)],
        [("view", 0), ("double", 1), ("hook", 1), ("hook", 2), ("fill", 1)],
        [("view", 0), ("node", 1), ("add_", 1)],
        [("hook", 0), ("part", 0), ("add_", 1)],
        [("hook", 0), ("retain", 0), ("mul_", 0), ("double", 0)],
        [("retain", 0), ("hook", 0), ("mine_", 0)],
        [("part", 0), ("hook", 1), ("mine_", 1)],
    ],
    ids=lambda steps: " ".join(f"{name}{place}" for name, place in steps),
)
def test_hooks_stay_with_what_they_were_registered_for(steps: list[tuple[str, int]]) -> None:
    assert seen(ours, steps) == seen(torch, steps)
