"""``autograd.functional``, gradient checks and checkpoints: the same programs on PyTorch and here."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as facade


def x(t: Any, *shape: int) -> Any:
    """Return a tensor of different numbers."""
    count = 1
    for size in shape:
        count *= size
    return (t.arange(float(count)).reshape(shape) + 1) / 4


def products(a: Any, b: Any) -> Any:
    return a * b.sin(), (a * b).sum()


JACOBIANS: dict[str, Callable[[Any, Any], Any]] = {
    "jacobian": lambda t, f: f.jacobian(lambda a: a.sin().outer(a), x(t, 3)),
    "jacobian of a number": lambda t, f: f.jacobian(lambda a: a.prod(), x(t, 3)),
    "jacobian of a matrix": lambda t, f: f.jacobian(lambda a: a @ a, x(t, 2, 2)),
    "jacobian of two": lambda t, f: f.jacobian(products, (x(t, 3), x(t, 3))),
    "jacobian vectorized": lambda t, f: f.jacobian(products, (x(t, 3), x(t, 3)), vectorize=True),
    "jacobian forward": lambda t, f: f.jacobian(products, (x(t, 3), x(t, 3)), vectorize=True, strategy="forward-mode"),
    "jacobian in the graph": lambda t, f: f.jacobian(lambda a: a**3, x(t, 2).requires_grad_(), create_graph=True),
    "jacobian of something else": lambda t, f: f.jacobian(lambda a, b: a * 2, (x(t, 2), x(t, 2))),
    "strict jacobian": lambda t, f: f.jacobian(lambda a, b: a * 2, (x(t, 2), x(t, 2)), strict=True),
    "strict jacobian of constants": lambda t, f: f.jacobian(lambda a: t.ones(2), x(t, 2), strict=True),
    "jacobian of a list": lambda t, f: f.jacobian(lambda a: a, [x(t, 2)]),
    "forward without vectorize": lambda t, f: f.jacobian(lambda a: a, x(t, 2), strategy="forward-mode"),
    "unknown strategy": lambda t, f: f.jacobian(lambda a: a, x(t, 2), strategy="sideways"),
    "hessian": lambda t, f: f.hessian(lambda a: (a.sin() * a).prod(), x(t, 3)),
    "hessian of two": lambda t, f: f.hessian(lambda a, b: (a * b.sin()).sum() * a[0], (x(t, 3), x(t, 3))),
    "hessian in the graph": lambda t, f: f.hessian(lambda a: (a**3).sum(), x(t, 2).requires_grad_(), create_graph=True),
    "hessian of a vector": lambda t, f: f.hessian(lambda a: a, x(t, 3)),
    "strict hessian of a sum": lambda t, f: f.hessian(lambda a: a.sum(), x(t, 3), strict=True),
    "hessian outer forward": lambda t, f: f.hessian(
        lambda a: a.sin().prod(), x(t, 3), vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "vjp": lambda t, f: f.vjp(lambda a: a.exp(), x(t, 3), x(t, 3)),
    "vjp of a number": lambda t, f: f.vjp(lambda a: a.exp().sum(), x(t, 3)),
    "vjp of two": lambda t, f: f.vjp(products, (x(t, 3), x(t, 3)), (x(t, 3), t.tensor(2.0))),
    "vjp without vector": lambda t, f: f.vjp(lambda a: a.exp(), x(t, 3)),
    "vjp of another size": lambda t, f: f.vjp(lambda a: a.exp(), x(t, 3), x(t, 2)),
    "strict vjp": lambda t, f: f.vjp(lambda a, b: a, (x(t, 2), x(t, 2)), x(t, 2), strict=True),
    "vjp in the graph": lambda t, f: f.vjp(
        lambda a: a**3, x(t, 3).requires_grad_(), x(t, 3).requires_grad_(), create_graph=True
    ),
    "jvp": lambda t, f: f.jvp(lambda a: a.exp() * a.sum(), x(t, 3), x(t, 3)),
    "jvp of two": lambda t, f: f.jvp(products, (x(t, 3), x(t, 3)), (x(t, 3), x(t, 3))),
    "jvp without vector": lambda t, f: f.jvp(lambda a: a.exp(), x(t, 3)),
    "jvp of one number": lambda t, f: f.jvp(lambda a: a.exp() * x(t, 2), t.tensor(2.0)),
    "strict jvp": lambda t, f: f.jvp(lambda a: t.ones(2), x(t, 2), x(t, 2), strict=True),
    "vhp": lambda t, f: f.vhp(lambda a: (a**3).sum() * a[0], x(t, 3), x(t, 3)),
    "vhp of two": lambda t, f: f.vhp(lambda a, b: (a * b).sum() ** 2, (x(t, 2), x(t, 2)), (x(t, 2), x(t, 2))),
    "hvp": lambda t, f: f.hvp(lambda a: (a**3).sum() * a[0], x(t, 3), x(t, 3)),
    "hvp of two": lambda t, f: f.hvp(lambda a, b: (a * b).sum() ** 2, (x(t, 2), x(t, 2)), (x(t, 2), x(t, 2))),
    "hvp without vector": lambda t, f: f.hvp(lambda a: (a**3).sum(), x(t, 3)),
}


def outcome(library: Any, run: Callable[[], Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run()
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        return type(error).__name__, str(error)


def check(actual: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert (tuple(actual.shape), actual.requires_grad) == (tuple(expected.shape), expected.requires_grad)
        found = torch.tensor(actual.detach().tolist(), dtype=expected.dtype).reshape(expected.shape)
        torch.testing.assert_close(found, expected.detach())
    elif isinstance(expected, tuple | list) and not isinstance(expected[0], str):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            check(one, other)
    else:
        # Some of PyTorch's texts lack a space.
        assert str(actual).replace("webgpu_torch_core.tensors.tensor", "torch").replace(" ", "") == str(
            expected
        ).replace(" ", "")


@pytest.mark.parametrize("name", JACOBIANS)
def test_functional(name: str) -> None:
    run = JACOBIANS[name]
    results = [
        outcome(library, lambda each=library: run(each, each.autograd.functional)) for library in (facade, torch)
    ]
    if "forward" in name:
        # PyTorch's forward mode hands out its own leaves' graph.
        detach = lambda each: each.detach() if hasattr(each, "detach") else tuple(map(detach, each))  # noqa: E731
        results = [each if isinstance(each[0], str) else detach(each) for each in results]
    check(*results)


def test_functional_on_devices(device: str) -> None:
    with facade.device(device):
        for name in ("jacobian of two", "hessian of two", "vjp of two", "jvp of two", "hvp of two"):
            run = JACOBIANS[name]
            check(run(facade, facade.autograd.functional), run(torch, torch.autograd.functional))


# Gradient checks


def wrong(t: Any, second: bool = False) -> Any:
    """Return a function whose gradient (or only whose gradient's gradient) is wrong."""

    class Cube(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a**3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (a,) = ctx.saved_tensors
            return grad * 3 * a.detach() ** 2 if second else grad * 2 * a**2

    return Cube.apply


def with_tangent(t: Any, factor: float, backward: bool = True) -> Any:
    """Return the square with a forward mode of its own, right by factor 2, and with a backward pass or none."""

    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            ctx.save_for_forward(a)
            return a * a

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert backward
            (a,) = ctx.saved_tensors
            return grad * 2 * a

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            (a,) = ctx.saved_tensors
            return tangent * factor * a

    return Square.apply


def double(t: Any, *shape: int) -> Any:
    return x(t, *shape).double().requires_grad_()


CHECKS: dict[str, Callable[[Any], Any]] = {
    "right": lambda t: t.autograd.gradcheck(lambda a: a.sin() * a, (double(t, 3),)),
    "several": lambda t: t.autograd.gradcheck(lambda a, b: (a @ b, a.sum()), (double(t, 2, 3), double(t, 3, 2))),
    "one of two": lambda t: t.autograd.gradcheck(lambda a, b: a * b, (double(t, 3), x(t, 3).double())),
    "fast": lambda t: t.autograd.gradcheck(lambda a: a.exp(), double(t, 3), fast_mode=True),
    "wrong": lambda t: t.autograd.gradcheck(wrong(t), (double(t, 3),)),
    "wrong, told": lambda t: t.autograd.gradcheck(wrong(t), (double(t, 3),), raise_exception=False),
    "forward": lambda t: t.autograd.gradcheck(
        lambda a, b: (a @ b, a.sum()), (double(t, 2, 3), double(t, 3, 2)), check_forward_ad=True
    ),
    "forward only": lambda t: t.autograd.gradcheck(
        with_tangent(t, 2, False), (double(t, 3),), check_forward_ad=True, check_backward_ad=False
    ),
    "forward wrong": lambda t: t.autograd.gradcheck(with_tangent(t, 3), (double(t, 3),), check_forward_ad=True),
    "forward wrong, not asked": lambda t: t.autograd.gradcheck(with_tangent(t, 3), (double(t, 3),)),
    "neither mode": lambda t: t.autograd.gradcheck(lambda a: a, (double(t, 3),), check_backward_ad=False),
    "forward of complex": lambda t: t.autograd.gradcheck(
        lambda a: (a * (2 + 1j)).abs() * a,
        (t.view_as_complex(x(t, 3, 2).double()).requires_grad_(),),
        check_forward_ad=True,
    ),
    "forward over reverse": lambda t: t.autograd.gradgradcheck(
        lambda a: a.sin() * a,
        (double(t, 3),),
        check_fwd_over_rev=True,
        check_rev_over_rev=False,
        check_undefined_grad=False,
    ),
    "second of no mode": lambda t: t.autograd.gradgradcheck(lambda a: a, (double(t, 3),), check_rev_over_rev=False),
    "nothing to check": lambda t: t.autograd.gradcheck(lambda a: a, (x(t, 3).double(),)),
    "second": lambda t: t.autograd.gradgradcheck(lambda a: a.sin() * a, (double(t, 3),)),
    "second of several": lambda t: t.autograd.gradgradcheck(lambda a, b: a**2 @ b, (double(t, 2, 3), double(t, 3, 2))),
    "second wrong": lambda t: t.autograd.gradgradcheck(wrong(t, True), (double(t, 3),), raise_exception=False),
    "first right, second wrong": lambda t: t.autograd.gradcheck(wrong(t, True), (double(t, 3),)),
    "second with cotangents": lambda t: t.autograd.gradgradcheck(lambda a: a.exp(), (double(t, 2),), (double(t, 2),)),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", CHECKS)
def test_gradient_checks(name: str) -> None:
    results = [outcome(library, lambda each=library: CHECKS[name](each)) for library in (facade, torch)]
    if isinstance(results[1], tuple):
        # The texts tell where and how far; the kind of error is what is caught.
        results = [each[0] for each in results]
    assert results[0] == results[1]


# Checkpoints


def library_checkpoint(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.utils.checkpoint")


def recomputed(t: Any, use_reentrant: bool) -> Any:
    calls: list[str] = []

    def block(a: Any, b: Any) -> Any:
        calls.append("block")
        return (a.sin() * b).exp()

    a, b = x(t, 3).requires_grad_(), x(t, 3).requires_grad_()
    result = library_checkpoint(t).checkpoint(block, a, b, use_reentrant=use_reentrant)
    before = len(calls)
    result.sum().backward()
    return before, len(calls), a.grad, b.grad


def same_noise(t: Any, use_reentrant: bool) -> Any:
    """Return whether the numbers drawn again are those drawn at first."""
    drawn: list[Any] = []

    def block(a: Any) -> Any:
        noise = t.rand(3)
        drawn.append(noise.tolist())
        return a * noise

    t.manual_seed(3)
    a = x(t, 3).requires_grad_()
    library_checkpoint(t).checkpoint(block, a, use_reentrant=use_reentrant).sum().backward()
    return drawn[0] == drawn[1], a.grad.tolist() == drawn[0], t.rand(2)


def sequential(t: Any, use_reentrant: bool) -> Any:
    layers = [t.nn.Linear(3, 3) for _ in range(4)]
    for number, layer in enumerate(layers):
        layer.weight.data, layer.bias.data = x(t, 3, 3).sin() + number / 8, x(t, 3)
    a = x(t, 2, 3).requires_grad_()
    result = library_checkpoint(t).checkpoint_sequential(t.nn.Sequential(*layers), 2, a, use_reentrant=use_reentrant)
    result.tanh().sum().backward()
    return result, a.grad, [layer.weight.grad for layer in layers]


def nested(t: Any, use_reentrant: bool) -> Any:
    checkpoint = library_checkpoint(t).checkpoint

    def inner(a: Any) -> Any:
        return a.sin() * a

    def outer(a: Any) -> Any:
        return checkpoint(inner, a, use_reentrant=use_reentrant).exp()

    a = x(t, 3).requires_grad_()
    checkpoint(outer, a, use_reentrant=use_reentrant).sum().backward()
    return a.grad


def structured(t: Any, use_reentrant: bool) -> Any:
    checkpoint = library_checkpoint(t).checkpoint
    a = x(t, 3).requires_grad_()
    first, second, number = checkpoint(lambda v: (v * 2, v.detach(), 7), a, use_reentrant=use_reentrant)
    (first * second).sum().backward()
    return a.grad, number, second.requires_grad


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("run", [recomputed, same_noise, sequential, nested, structured])
def test_checkpoints(run: Any, use_reentrant: bool) -> None:
    results = [outcome(library, lambda each=library: run(each, use_reentrant)) for library in (facade, torch)]
    check(*results)


def test_gradients_of_gradients_through_a_checkpoint() -> None:
    def run(t: Any) -> Any:
        a = x(t, 3).requires_grad_()
        result = library_checkpoint(t).checkpoint(lambda v: v**3, a, use_reentrant=False).sum()
        (gradient,) = t.autograd.grad(result, a, create_graph=True)
        return t.autograd.grad(gradient.sum(), a)

    check(run(facade), run(torch))
