"""A compiled function notices changes of all that its code reaches: histories, attributes, hooks, methods, other optimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import webgpu_torch as torch
from compiled_programs import compare
from webgpu_torch import nn


class Holder:
    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 2.0


class Attributes:
    scale = 2.0

    @staticmethod
    def scaled(x: Any) -> Any:
        return x * 2


def tensor_with(**attributes: Any) -> Any:
    tensor = torch.ones(2)
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


def leaf_with_gradient() -> tuple[Any, Callable[[], Any]]:
    leaf = torch.ones(2, requires_grad=True)

    def function() -> Any:
        leaf.grad = None
        (leaf * 3).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.detach().clone()

    return leaf, function


def halved(leaf: Any) -> None:
    leaf.grad.mul_(0.5)


def what_code_reaches(name: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a function, and what changes something that its results depend on."""
    x, wanting = torch.ones(2), torch.ones(2, requires_grad=True)
    leaf, gradient = leaf_with_gradient()
    if name == "a history":
        return lambda: x * 2, lambda: x.add_(wanting)
    if name == "a history of a view's base":
        view = x[:1]
        return lambda: view * 2, lambda: x.add_(wanting)
    if name == "no history":
        return lambda: wanting * 2, lambda: wanting.detach_()
    if name == "a tensor's attribute":
        x = tensor_with(scale=2.0)
        return lambda: x * x.scale, lambda: setattr(x, "scale", 5.0)
    if name == "a slot":
        holder = Holder()
        return lambda: x * holder.scale, lambda: setattr(holder, "scale", 5.0)
    if name == "a new attribute":
        own: Any = Attributes()
        return lambda: x * getattr(own, "other", own.scale), lambda: setattr(own, "other", 4.0)
    if name == "a method":
        return lambda: Attributes.scaled(x), lambda: setattr(Attributes, "scaled", staticmethod(lambda x: x * 7))
    if name == "a library's function":
        return lambda: nn.functional.hardswish(x), lambda: setattr(nn.functional, "hardswish", lambda x: x * 7)
    if name == "an array":
        numpy = pytest.importorskip("numpy")
        array = numpy.ones(2)
        return lambda: x * float(array[0]), lambda: array.fill(3)
    if name == "a hook of a tensor":
        return gradient, lambda: leaf.register_hook(lambda grad: grad * 5)
    if name == "a variable of a hook":
        factor = [2.0]
        leaf.register_hook(lambda grad: grad * factor[0])
        return gradient, lambda: factor.__setitem__(0, 5.0)
    if name == "a hook after accumulation":
        return gradient, lambda: leaf.register_post_accumulate_grad_hook(halved)
    node = (leaf * 1).grad_fn.next_functions[0][0]  # a hook of a node
    return gradient, lambda node=node: node.register_prehook(lambda given: (given[0] * 7,))


def test_another_optimizer_in_the_place_of_one() -> None:
    parameter = torch.ones(2, requires_grad=True)
    optimizers = [torch.optim.SGD([parameter], lr=rate, momentum=0.5) for rate in (0.1, 0.5)]
    optimizer = optimizers[0]

    def step() -> Any:
        parameter.grad = torch.ones(2)
        optimizer.step()
        return parameter.detach().clone()

    compiled, found = torch.compile(step), []
    for optimizer in (*optimizers, *optimizers):
        optimizer.param_groups[0]["lr"] *= 2
        found += [compiled().tolist() for _ in range(3)]
    with torch.no_grad():
        parameter.fill_(1)
    optimizers = [torch.optim.SGD([parameter], lr=rate, momentum=0.5) for rate in (0.1, 0.5)]
    for optimizer in (*optimizers, *optimizers):
        optimizer.param_groups[0]["lr"] *= 2
        for _ in range(3):
            assert step().tolist() == pytest.approx(found.pop(0))
    assert compiled.statistics["replayed"] >= 6


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize(
    "name",
    [
        "a history", "a history of a view's base", "no history", "a tensor's attribute", "a slot", "a new attribute",
        "a method", "a library's function", "an array", "a hook of a tensor", "a variable of a hook",
        "a hook after accumulation", "a hook of a node",
    ],
)  # fmt: skip
def test_changes_of_what_code_reaches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, attribute in ((Attributes, "scaled"), (nn.functional, "hardswish")):
        # Put back afterwards.
        monkeypatch.setattr(owner, attribute, vars(owner)[attribute])
    function, change = what_code_reaches(name)
    compiled = torch.compile(function)
    for changes in (False, True):
        if changes:
            change()
        for _ in range(3):
            compare(compiled(), function(), name)
