"""Pruned modules: masks, results, gradients and states equal PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as facade
from nn_oracle import close, copy_weights, to_ours
from torch.nn.utils import prune as _prune

theirs_of: Any = _prune
prune: Any = facade.nn.utils.prune


def scores(t: Any) -> Any:
    values = torch.arange(24.0).reshape(4, 3, 2).sin()
    return values if t is torch else to_ours(values)


def mask(t: Any) -> Any:
    values = (torch.arange(24).reshape(4, 3, 2) % 3 > 0).float()
    return values if t is torch else to_ours(values)


#: what is done to a convolution with a weight [4, 3, 2]; drawn numbers are the same on the CPU only
WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "identity": lambda p, t, m: p.identity(m, "weight"),
    "share": lambda p, t, m: p.l1_unstructured(m, "weight", 0.3),
    "number": lambda p, t, m: p.l1_unstructured(m, "bias", 2),
    "none": lambda p, t, m: p.l1_unstructured(m, "weight", 0),
    "all": lambda p, t, m: p.l1_unstructured(m, "weight", 1.0),
    "scores": lambda p, t, m: p.l1_unstructured(m, "weight", 5, scores(t)),
    "channels": lambda p, t, m: p.ln_structured(m, "weight", 0.5, 2, 0),
    "channels of another norm": lambda p, t, m: p.ln_structured(m, "weight", 1, float("inf"), -2),
    "channels by scores": lambda p, t, m: p.ln_structured(m, "weight", 1, 1, 1, scores(t)),
    "mask": lambda p, t, m: p.custom_from_mask(m, "weight", mask(t)),
    "random": lambda p, t, m: p.random_unstructured(m, "weight", 0.4),
    "random channels": lambda p, t, m: p.random_structured(m, "weight", 2, 1),
    "random twice": lambda p, t, m: p.random_unstructured(p.random_structured(m, "weight", 1, 0), "weight", 4),
    "twice": lambda p, t, m: p.l1_unstructured(p.l1_unstructured(m, "weight", 0.3), "weight", 0.5),
    "thrice": lambda p, t, m: p.custom_from_mask(
        p.ln_structured(p.l1_unstructured(m, "weight", 4), "weight", 1, 2, 0), "weight", mask(t)
    ),
    "channels after mask": lambda p, t, m: p.ln_structured(
        p.ln_structured(m, "weight", 1, 2, -1), "weight", 1, 2, 0
    ),
}  # fmt: skip
#: those that bring a tensor of the CPU
GIVEN = ("scores", "channels by scores", "mask", "thrice")


def modules(device: str = "cpu") -> tuple[Any, Any]:
    torch.manual_seed(4)
    theirs, mine = torch.nn.Conv1d(3, 4, 2), facade.nn.Conv1d(3, 4, 2)
    copy_weights(theirs, mine)
    return theirs, mine.to(device)


def compare(mine: Any, theirs: Any) -> None:
    expected, found = theirs.state_dict(), mine.state_dict()
    assert list(found) == list(expected)
    for key, value in expected.items():
        close(found[key], value, 0, 0)
    assert [name for name, _ in mine.named_parameters()] == [name for name, _ in theirs.named_parameters()]


@pytest.mark.parametrize("name", WAYS)
def test_ways_of_pruning(name: str) -> None:
    pair = modules()
    for library, methods, module in zip((torch, facade), (theirs_of, prune), pair, strict=True):
        library.manual_seed(6)
        WAYS[name](methods, library, module)
        assert methods.is_pruned(library.nn.Sequential(module))
    theirs, mine = pair
    compare(mine, theirs)
    x = torch.randn(2, 3, 5, requires_grad=True)
    y = to_ours(x).requires_grad_()
    right, left = theirs(x), mine(y)
    close(left, right)
    (right * right).sum().backward()
    (left * left).sum().backward()
    assert x.grad is not None
    close(y.grad, x.grad, 1e-4, 1e-5)
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(one.grad, other.grad, 1e-4, 1e-5)
    assert [type(each).__name__ for each in mine._forward_pre_hooks.values()] == [
        type(each).__name__ for each in theirs._forward_pre_hooks.values()
    ]
    pruned = "bias" if name == "number" else "weight"
    prune.remove(mine, pruned)
    theirs_of.remove(theirs, pruned)
    compare(mine, theirs)
    assert not prune.is_pruned(mine)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(mine, pruned)


@pytest.mark.parametrize("name", [each for each in WAYS if each not in GIVEN])
def test_pruning_elsewhere(name: str, device: str) -> None:
    theirs, mine = modules(device)
    WAYS[name](theirs_of, torch, theirs)
    WAYS[name](prune, facade, mine)
    assert {str(each.device.type) for each in mine.state_dict().values()} == {device}
    if "random" in name:
        kept = [each.state_dict()["weight_mask"].sum().item() for each in (mine, theirs)]
        assert kept[0] == kept[1]
    else:
        compare(mine, theirs)


def test_pruning_all_of_a_model() -> None:
    models = []
    for library, methods in ((torch, theirs_of), (facade, prune)):
        library.manual_seed(3)
        model = library.nn.Sequential(library.nn.Linear(4, 5), library.nn.Linear(5, 3))
        chosen = ((model[0], "weight"), (model[1], "weight"), (model[1], "bias"))
        methods.global_unstructured(chosen, methods.L1Unstructured, amount=0.4)
        methods.global_unstructured(
            chosen, methods.L1Unstructured, {(model[0], "weight"): library.ones(5, 4) * 9}, amount=3
        )
        models.append(model)
    compare(models[1], models[0])
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured([(models[1][0], "weight")], prune.LnStructured, amount=1, n=2)


def test_methods_of_ones_own() -> None:
    results = []
    for library, methods in ((torch, theirs_of), (facade, prune)):

        class Every(methods.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t: Any, default_mask: Any) -> Any:
                result = default_mask.clone()
                result.view(-1)[::2] = 0
                return result

        tensor = library.arange(6.0).reshape(2, 3)
        results.append([Every().prune(tensor).tolist(), methods.L1Unstructured(2).prune(-tensor).tolist()])
        layer = library.nn.Linear(3, 2)
        Every.apply(layer, "weight")
        container = methods.L1Unstructured.apply(layer, "weight", 1)
        assert len(container) == 2 and isinstance(container[0], Every) and list(container)[1] is container[1]
        results[-1].append(layer.weight_mask.sum().item())
    assert results[0] == results[1]


REFUSALS: dict[str, Callable[[Any, Any], Any]] = {
    "no number": lambda p, t: p.L1Unstructured("much"),
    "negative": lambda p, t: p.RandomUnstructured(-1),
    "share": lambda p, t: p.LnStructured(1.2, 2),
    "too many": lambda p, t: p.l1_unstructured(t.nn.Linear(2, 2), "weight", 5),
    "flat": lambda p, t: p.ln_structured(t.nn.Linear(2, 2), "bias", 1, 2, 0),
    "dim": lambda p, t: p.ln_structured(t.nn.Linear(2, 2), "weight", 1, 2, 2),
    "scores": lambda p, t: p.l1_unstructured(t.nn.Linear(2, 2), "weight", 1, t.ones(3)),
    "other name": lambda p, t: p.PruningContainer(p.Identity()),
    "no method": lambda p, t: p.PruningContainer.__new__(p.PruningContainer).add_pruning_method(3),
    "no pairs": lambda p, t: p.global_unstructured(3, p.L1Unstructured, amount=1),
    "no scores": lambda p, t: p.global_unstructured([], p.L1Unstructured, 3, amount=1),
}


@pytest.mark.parametrize("call", REFUSALS.values(), ids=REFUSALS)
def test_refusals(call: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        call(theirs_of, torch)
    with pytest.raises(type(expected.value)) as actual:
        call(prune, facade)
    if "<class" not in str(expected.value) and "object at" not in str(expected.value):
        assert str(actual.value) == str(expected.value)


def test_a_refused_parameter_stays() -> None:
    layer = facade.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="should be smaller than"):
        prune.l1_unstructured(layer, "weight", 9)
    assert sorted(layer._parameters) == ["bias", "weight"] and not layer._buffers
