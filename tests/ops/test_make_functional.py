"""Modules as functions of their parameters under functorch's names: the values, gradients and errors are PyTorch's."""

from __future__ import annotations

import pytest
import torch as oracle
import webgpu_torch as torch
from torch._functorch import eager_transforms as their_transforms
from torch._functorch import make_functional as theirs
from webgpu_torch._functorch import deprecated, eager_transforms
from webgpu_torch._functorch import make_functional as ours


def _made(framework, norm):
    framework.manual_seed(1)
    layers = [framework.nn.Linear(3, 2), *([framework.nn.BatchNorm1d(2)] if norm else [])]
    return framework.nn.Sequential(*layers)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("detached", [False, True])
def test_functions(norm, detached):
    results = []
    for framework, place in ((torch, ours), (oracle, theirs)):
        model = _made(framework, norm)
        function, params, buffers = place.make_functional_with_buffers(model, detached)
        assert [each.requires_grad for each in params] == [not detached] * len(params)
        x = framework.arange(12.0).reshape(4, 3)
        value = function(params, buffers, x).square().sum()
        results.append([value.item(), [each.sum().item() for each in buffers], len(params)])
        if not norm:
            alone, weights = place.make_functional(model)
            assert alone(weights, x).sum().item() == pytest.approx(model(x).sum().item())
            weights, call, names = place.functional_init(framework.nn.Linear, (5,))(3, 2)
            assert names == ("weight", "bias") and tuple(weights[0].shape) == (5, 2, 3)
            assert tuple(call([each[0] for each in weights], (x,)).shape) == (4, 2)
        else:
            with pytest.raises(RuntimeError, match="has buffers"):
                place.make_functional(model)
            made = place.functional_init_with_buffers(framework.nn.BatchNorm1d, (2,))(4)
            assert len(made) == 5 and tuple(made[1][0].shape) == (2, 4)
            _, params, buffers = place.combine_state_for_ensemble([model, model])
            assert tuple(params[0].shape) == (2, 2, 3) and tuple(buffers[0].shape) == (2, 2)
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-4) and results[0][2] == results[1][2]


@pytest.mark.parametrize("numbers", [0, -1, (0, 2), (1,), (), (0, 0), 5, "a", (0, 1.5)])
def test_numbers_of_arguments(numbers):
    outcomes = []
    for place in (eager_transforms, their_transforms):
        for as_tuple in (True, False):
            try:
                outcomes.append(place._slice_argnums((1, 2, 3), numbers, as_tuple))
            except RuntimeError:
                outcomes.append("refused")
    assert outcomes[:2] == outcomes[2:]


def test_functionalize():
    def written(x):
        y = x * 2
        y[0].add_(1)
        return y

    assert torch.func.functionalize(written)(torch.ones(2)).tolist() == [3, 2]
    with pytest.raises(RuntimeError, match="invalid argument for remove"):
        torch.func.functionalize(written, remove="views")
    with pytest.warns(FutureWarning, match=r"torch\.func\.functional_call"):
        deprecated.make_functional(torch.nn.Linear(2, 2))
    with pytest.warns(FutureWarning, match=r"torch\.func\.functionalize"):
        deprecated.functionalize(written)


def test_negated_views():
    x = torch.tensor([1.0, -2.0])
    assert torch._neg_view(x).tolist() == x._neg_view().tolist() == [-1, 2] and not x._neg_view().is_neg()


def _refusals(framework):
    func, x = framework.func, framework.ones(3)
    inside = framework.autograd.functional
    return {
        "nothing": lambda: func.jvp(lambda _: None, (x,), (x,)), "an empty tuple": lambda: func.vjp(lambda _: (), x),
        "a number": lambda: func.jacrev(lambda _: 1)(x), "a text": lambda: func.jvp(lambda _: "a", (x,), (x,)),
        "no primals": lambda: func.jvp(framework.sin, (), ()), "aux": lambda: func.jacfwd(lambda x: (x, 1), has_aux=True)(x),
        "aux inside": lambda: func.grad(lambda x: (x.sum(), [x, 1.0]), has_aux=True)(x),
        "jacobian in vmap": lambda: func.vmap(lambda x: inside.jacobian(framework.sin, x))(x),
        "vjp in grad": lambda: func.grad(lambda x: inside.vjp(framework.sin, x, x)[0].sum())(x),
    }  # fmt: skip


# PyTorch's own jvp warns.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", _refusals(torch))
def test_refusals_of_transforms(name):
    errors = []
    for framework in (torch, oracle):
        with pytest.raises(RuntimeError) as caught:
            _refusals(framework)[name]()
        errors.append(caught.value)
    text = str(errors[1])
    expected = "torch.autograd.functional" if "torch.autograd.functional" in text else text[:45]
    assert expected in str(errors[0])
