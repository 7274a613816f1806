"""Autograd goes through the steps of optimisers that are asked for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch as reference
import webgpu_torch as ours

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("Adam", {"weight_decay": 0.1}),
    ("AdamW", {}),
    ("Adadelta", {}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("ASGD", {"weight_decay": 0.1}),
]
#: what PyTorch's own steps write into before autograd reads it
BY_DIFFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {"amsgrad": True}),
    ("Adamax", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Rprop", {}),
]


def trained(library: Any, name: str, options: dict[str, Any], start: Any, lr: Any, steps: int = 6) -> Any:
    """Return a parameter after some steps along gradients that depend on it."""
    parameter = start.clone()
    optimizer = getattr(library.optim, name)([parameter], lr=lr, differentiable=True, **options)
    for _ in range(steps):
        copy = parameter.clone()
        loss = (copy**3 + 2 * copy).sin().sum()
        parameter.grad = library.autograd.grad(loss, copy, create_graph=True)[0]
        optimizer.step()
    return parameter


def start(library: Any) -> Any:
    return library.linspace(-1.0, 1.3, 5, dtype=library.float64).requires_grad_()


@pytest.mark.parametrize(("name", "options"), CASES)
def test_gradients_through_steps_are_pytorchs(name: str, options: dict[str, Any]) -> None:
    found = []
    for library in (ours, reference):
        begin = start(library)
        end = trained(library, name, options, begin, 0.01)
        found += [end.tolist(), library.autograd.grad((end * end).sum(), begin)[0].tolist()]
    # PyTorch counts steps in single precision.
    assert found[0] == pytest.approx(found[2], rel=1e-4)
    assert found[1] == pytest.approx(found[3], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(("name", "options"), BY_DIFFERENCES)
def test_gradients_through_steps_are_differences(name: str, options: dict[str, Any]) -> None:
    assert ours.autograd.gradcheck(
        lambda begin, lr: trained(ours, name, options, begin, 0.01 if name == "Rprop" else lr, steps=3),
        (start(ours), ours.tensor(0.01, dtype=ours.float64, requires_grad=name != "Rprop")),
    )


@pytest.mark.parametrize("option", ["lr", "weight_decay"])
def test_options_that_are_tensors_have_gradients(option: str) -> None:
    found = []
    for library in (ours, reference):
        value = library.tensor(0.05, dtype=library.float64, requires_grad=True)
        given: dict[str, Any] = {"lr": 0.1, option: value}
        lr = given.pop("lr")
        begin = start(library).detach()
        parameter = begin.clone()
        optimizer = library.optim.SGD([parameter], lr=lr, differentiable=True, **given)
        for _ in range(2):
            parameter.grad = library.ones_like(begin)
            optimizer.step()
        found.append(library.autograd.grad(parameter.sum(), value)[0].item())
    assert found[0] == pytest.approx(found[1])


def test_parameters_that_were_computed_need_the_option() -> None:
    computed = ours.ones(3, requires_grad=True) * 2
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        ours.optim.SGD([computed], lr=0.1)
