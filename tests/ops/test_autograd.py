"""The autograd engine against PyTorch: one story told to both, everything it returns compared."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch
import webgpu_torch_core as core
from ops_oracle import ORACLE, OURS, both_raise, compare, sample, to_ours
from webgpu_torch_core.record.node import AccumulateGrad
from webgpu_torch_core.tensors import tensor as leaves


def _function(t: Any) -> Any:
    return t.autograd.Function


def leaf(x: Any) -> Any:
    return x.detach().requires_grad_()


def accumulation(t, x, y):
    x = leaf(x)
    (x * y).sum().backward()
    first = x.grad.clone()
    (x * x).sum().backward()
    return first, x.grad


def retain_graph(t, x, y):
    x = leaf(x)
    z = (x * x * y).sum()
    z.backward(retain_graph=True)
    z.backward()
    return x.grad


def create_graph(t, x, y):
    x = leaf(x)
    (slope,) = t.autograd.grad((x**3 * y).sum(), x, create_graph=True)
    (curve,) = t.autograd.grad(slope.sum(), x, create_graph=True)
    (third,) = t.autograd.grad(curve.sum(), x)
    return slope, curve, third


def several_outputs(t, x, y):
    x, y = leaf(x), leaf(y)
    return t.autograd.grad([x * y, x + y], [x, y], [t.ones_like(x), y.detach()])


def unused(t, x, y):
    x, y = leaf(x), leaf(y)
    found = t.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)
    zeros = t.autograd.grad((x * 2).sum(), [x, y], allow_unused=True, materialize_grads=True)
    return found[0], found[1] is None, zeros


def intermediate(t, x, y):
    x = leaf(x)
    middle = x * y
    (slope,) = t.autograd.grad((middle * middle).sum(), middle)
    return slope


def hooks(t, x, y):
    x = leaf(x)
    seen = []
    middle = x * y
    middle.register_hook(lambda grad: grad * 2)
    handle = x.register_hook(lambda grad: seen.append(grad.clone()))
    removed = x.register_hook(lambda grad: grad * 100)
    removed.remove()
    middle.sum().backward()
    handle.remove()
    (x * 1).sum().backward()
    return x.grad, seen, len(seen)


def post_accumulate(t, x, y):
    x = leaf(x)
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    (x * y).sum().backward()
    return seen


def retained(t, x, y):
    x = leaf(x)
    middle = x * y
    middle.retain_grad()
    (middle * middle).sum().backward()
    return middle.grad, middle.retains_grad, x.grad


def modes(t, x, y):
    x = leaf(x)
    with t.no_grad():
        a = x * 2
        with t.enable_grad():
            b = x * 2
    with t.inference_mode():
        c = x * 3
    with t.set_grad_enabled(False):
        d = x + 1

    @t.no_grad()
    def quiet():
        return x * 5

    return (
        a.requires_grad,
        b.requires_grad,
        c.requires_grad,
        d.requires_grad,
        quiet().requires_grad,
        t.is_grad_enabled(),
    )


def detaching(t, x, y):
    x = leaf(x)
    middle = x * y
    cut = middle.detach()
    middle.detach_()
    z = (x * cut).sum()
    z.backward()
    return middle.requires_grad, cut.is_leaf, x.grad


def custom(t, x, y):
    class Cube(_function(t)):
        @staticmethod
        def forward(ctx, a, power):
            ctx.save_for_backward(a)
            ctx.power = power
            return a**power

        @staticmethod
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            return grad * ctx.power * a ** (ctx.power - 1), None

    x = leaf(x)
    z = Cube.apply(x, 3)
    (slope,) = t.autograd.grad(z.sum(), x, create_graph=True)
    (curve,) = t.autograd.grad(slope.sum(), x)
    return z, slope, curve


def custom_pair(t, x, y):
    class Pair(_function(t)):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b, a + b

        @staticmethod
        def backward(ctx, one, two):
            a, b = ctx.saved_tensors
            return one * b + two, one * a + two if ctx.needs_input_grad[1] else None

    x, y = leaf(x), leaf(y)
    product, total = Pair.apply(x, y)
    only = t.autograd.grad(product.sum(), [x, y], retain_graph=True)
    both = t.autograd.grad((product * total).sum(), [x, y])
    return only, both


def custom_context(t, x, y):
    class Double(_function(t)):
        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable()

        @staticmethod
        def backward(ctx, grad):
            return grad * 20

    x = leaf(x)
    Double.apply(x).sum().backward()
    return x.grad


def dirty(t, x, y):
    class Fill(_function(t)):
        @staticmethod
        def forward(ctx, a):
            a.mul_(3)
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = leaf(x)
    z = x * y
    result = Fill.apply(z)
    (result * result).sum().backward()
    return result, x.grad


def once(t, x, y):
    x, y = leaf(x), leaf(y)
    (x * y + x.exp()).sum().backward(inputs=[x])
    return x.grad, y.grad is None


def diamond(t, x, y):
    x = leaf(x)
    a = x * y
    b, c = a.exp(), a.sin()
    ((b * c) + b).sum().backward()
    return x.grad


def views_and_leaves(t, x, y):
    x = leaf(x)
    parts = x.unbind(0)
    (parts[0] * parts[1].exp()).sum().backward()
    with t.no_grad():
        x.add_(1)
        x[0] = 7
    return x, x.grad, x.is_leaf, x.requires_grad


def properties(t, x, y):
    x = leaf(x)
    z = x * 2
    return (
        x.is_leaf,
        z.is_leaf,
        z.requires_grad,
        x.grad is None,
        z.grad_fn is None,
        x.grad_fn is None,
        type(z.grad_fn).__name__ != "",
        z.grad_fn.name(),
    )


def zeroing(t, x, y):
    x = leaf(x)
    (x * y).sum().backward()
    x.grad.zero_()
    (x * x).sum().backward()
    first = x.grad.clone()
    x.grad = None
    (x * 3).sum().backward()
    return first, x.grad


def saved_result_survives(t, x, y):
    x = leaf(x)
    middle = x * y
    z = middle.exp()
    middle.add_(1)
    (z.sum() + middle.sum()).backward()
    return x.grad


def mixed_types(t, x, y):
    x, y = leaf(x), leaf(y.half())
    (x * y).sum().backward()
    return x.grad, y.grad


def shared_subgraph(t, x, y):
    x = leaf(x)
    total = x * 0
    for _ in range(20):
        total = total + (x * y).tanh() * total.sigmoid()
    total.sum().backward()
    return x.grad


STORIES = {
    each.__name__: each
    for each in (
        accumulation,
        retain_graph,
        create_graph,
        several_outputs,
        unused,
        intermediate,
        hooks,
        post_accumulate,
        retained,
        modes,
        detaching,
        custom,
        custom_pair,
        custom_context,
        dirty,
        once,
        diamond,
        views_and_leaves,
        properties,
        zeroing,
        saved_result_survives,
        mixed_types,
        shared_subgraph,
    )
}


@pytest.mark.parametrize("name", sorted(STORIES))
def test_stories(name: str, device: str) -> None:
    x, y = sample((3, 4), torch.float32, 1, 0.2, 1.5), sample((3, 4), torch.float32, 2, 0.2, 1.5)
    expected = STORIES[name](ORACLE, x.clone(), y.clone())
    compare(STORIES[name](OURS, to_ours(x, device), to_ours(y, device)), expected, where=name)


def _backward_twice(t, x):
    z = (leaf(x) ** 2).sum()
    z.backward()
    z.backward()


def _modified_operand(t, x):
    middle = leaf(x) * 1
    z = (middle * middle).sum()
    middle.add_(1)
    z.backward()


def _modified_result(t, x):
    z = (leaf(x) * 1).exp()
    total = z.sum()
    z.add_(1)
    total.backward()
    return None


def _custom_without_backward(t, x):
    class Half(_function(t)):
        @staticmethod
        def forward(ctx, a):
            return a / 2

    Half.apply(leaf(x)).sum().backward()


def _wrong_count(t, x):
    class Bad(_function(t)):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, grad):
            return grad

    Bad.apply(leaf(x), leaf(x)).sum().backward()


ERRORS = {
    "not a scalar": (lambda t, x: (leaf(x) * 2).backward(), "grad can be implicitly created only for scalar outputs"),
    "no grad": (lambda t, x: x.sum().backward(), "does not require grad and does not have a grad_fn"),
    "twice": (_backward_twice, "Trying to backward through the graph a second time"),
    "leaf in place": (
        lambda t, x: leaf(x).add_(1),
        "a leaf Variable that requires grad is being used in an in-place operation",
    ),
    "view of leaf": (
        lambda t, x: leaf(x)[0].add_(1),
        "a view of a leaf Variable that requires grad is being used in an in-place operation",
    ),
    "modified operand": (_modified_operand, "modified by an inplace operation"),
    "modified result": (_modified_result, "modified by an inplace operation"),
    "unused": (lambda t, x: t.autograd.grad(leaf(x).sum(), leaf(x)), "appears to not have been used in the graph"),
    "input without grad": (lambda t, x: t.autograd.grad(leaf(x).sum(), x), "does not require grad"),
    "integers": (lambda t, x: x.long().requires_grad_(), "floating point"),
    "shape of cotangent": (lambda t, x: (leaf(x) * 2).backward(t.ones(2, 2, device=x.device)), "Mismatch in shape"),
    "requires_grad of computed": (
        lambda t, x: (leaf(x) * 2).requires_grad_(False),
        "you can only change requires_grad flags of leaf variables",
    ),
    "retain_grad": (lambda t, x: x.retain_grad(), "can't retain_grad on Tensor that has requires_grad=False"),
    "hook": (lambda t, x: x.register_hook(print), "cannot register a hook on a tensor that doesn't require gradient"),
    "numpy": (lambda t, x: leaf(x).numpy(), "Can't call numpy() on Tensor that requires grad"),
    "out": (lambda t, x: t.add(leaf(x), 1, out=x), "don't support automatic differentiation"),
    "deepcopy": (lambda t, x: __import__("copy").deepcopy(leaf(x) * 2), "Only Tensors created explicitly by the user"),
    "no backward": (_custom_without_backward, "backward"),
    "wrong count": (_wrong_count, "gradients"),
    "assigned shape": (lambda t, x: setattr(leaf(x), "grad", x[0]), "attempting to assign a gradient of size"),
    "in place on expanded": (
        lambda t, x: (leaf(x) * 1)[:1].expand(3, 4).add_(1),
        "more than one element of the written-to tensor",
    ),
    "detach_ of view": (lambda t, x: (leaf(x) * 1)[0].detach_(), "Can't detach views in-place"),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str, device: str) -> None:
    function, words = ERRORS[name]
    both_raise(function, [sample((3, 4), torch.float32, 1, 0.2, 1.5)], device, words)


def test_versions(device: str) -> None:
    x = to_ours(sample((3, 4), torch.float32), device)
    assert x._version == 0
    x.add_(1)
    x[0].mul_(2)
    x[:, 1] = 3
    assert x._version == 3
    assert x[0]._version == 3 and x.detach()._version == 3 and x.clone()._version == 0


@pytest.mark.slow_on("webgpu")
def test_long_chain_needs_no_recursion(device: str) -> None:
    x = to_ours(torch.ones(2), device).requires_grad_()
    y = x
    for _ in range(3000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_graph_is_freed(device: str) -> None:
    import gc
    import weakref

    x = to_ours(torch.ones(3), device).requires_grad_()
    gc.collect()
    gc.disable()
    try:
        y = (x * 2).exp()
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()
    assert isinstance(x.grad, core.Tensor)


STEPS = {
    "sign": lambda t, x, y: t.sign(x), "sgn": lambda t, x, y: t.sgn(x), "floor": lambda t, x, y: t.floor(x),
    "ceil": lambda t, x, y: t.ceil(x), "round": lambda t, x, y: t.round(x), "trunc": lambda t, x, y: t.trunc(x),
    "round decimals": lambda t, x, y: t.round(x, decimals=1),
    "div trunc": lambda t, x, y: t.div(x, y, rounding_mode="trunc"),
    "div floor": lambda t, x, y: t.div(x, y, rounding_mode="floor"),
    "copysign": lambda t, x, y: t.copysign(x, y),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(STEPS))
def test_steps_have_a_gradient_of_zeros(name: str, device: str) -> None:
    def story(t: Any, x: Any, y: Any) -> Any:
        x, y = leaf(x), leaf(y)
        STEPS[name](t, x, y).sum().backward()
        return [each.grad for each in (x, y) if each.grad is not None]

    values = [sample((3, 4), torch.float32, seed, -2.0, 2.0) for seed in (1, 2)]
    expected = story(ORACLE, *values)
    compare(story(OURS, *(to_ours(each, device) for each in values)), expected)
    assert expected


def test_threads_that_use_a_leaf_first_at_once_share_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both come to where it has none."""

    def slowly(variable: Any) -> Any:
        time.sleep(0.05)
        return AccumulateGrad(variable)

    monkeypatch.setattr(leaves, "AccumulateGrad", slowly)
    x = core.ones(3).requires_grad_()
    barrier, results = threading.Barrier(2), []

    def use(factor: int) -> None:
        barrier.wait()
        results.append(x * factor)

    threads = [threading.Thread(target=use, args=(each,)) for each in (2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results[0].grad_fn.next_functions[0] == results[1].grad_fn.next_functions[0]
