"""What autograd refuses: the same exception type and the same words as PyTorch, whatever the device."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ops_oracle import ORACLE, OURS, sample, to_ours


def leaf(x: Any) -> Any:
    return x.detach().clone().requires_grad_()


def inner(x: Any) -> Any:
    """A tensor that is no leaf."""
    return leaf(x) * 1


def _custom(t: Any, backward: Any, forward: Any = None) -> Any:
    """Return ``apply`` of a function that doubles its first argument, with a backward pass of one's own."""

    class Custom(t.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            return forward(ctx, *args) if forward else args[0] * 2

        @staticmethod
        def backward(ctx, *grads):
            return backward(ctx, *grads)

    return Custom.apply


def _twice(t, x):
    y = leaf(x).exp().sum()
    y.backward()
    y.backward()


def _custom_twice(t, x):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    y = _custom(t, lambda ctx, g: g * ctx.saved_tensors[0], forward)(leaf(x)).sum()
    y.backward()
    y.backward()


def _stale(make: Callable[[Any], Any], change: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def story(t, x):
        middle = inner(x)
        total = make(middle).sum()
        change(middle)
        total.backward()

    return story


def _stale_leaf(t, x):
    a = leaf(x)
    total = (a * a).sum()
    with t.no_grad():
        a.add_(1)
    total.backward()


def _stale_result(t, x):
    y = inner(x).exp()
    total = y.sum()
    y.add_(1)
    total.backward()


def _stale_custom(t, x):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    middle = inner(x)
    total = _custom(t, lambda ctx, g: g * ctx.saved_tensors[0], forward)(middle).sum()
    middle.add_(1)
    total.backward()


def _no_grad_view(make: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def story(t, x):
        base = make(x)
        with t.no_grad():
            view = base[:2]
        view.add_(1)

    return story


def _inference_view(t, x):
    base = inner(x)
    with t.inference_mode():
        view = base[:2]
    view.add_(1)


def _inference(t, x):
    with t.inference_mode():
        return x * 1


def _dirty(t, x, make):
    def forward(ctx, a):
        a.add_(1)
        ctx.mark_dirty(a)
        return a

    return _custom(t, lambda ctx, g: g, forward)(make(x))


def _dirty_not_returned(t, x):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a * 2

    _custom(t, lambda ctx, g: g, forward)(inner(x))


def _once(t, x):
    from importlib import import_module

    once_differentiable = import_module(t.module.__name__ + ".autograd.function").once_differentiable

    class Once(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * 2

    a = leaf(x)
    seed = t.ones_like(x).requires_grad_()
    (slope,) = t.autograd.grad(Once.apply(a), a, seed, create_graph=True)
    slope.sum().backward()


def _both(t, x):
    class Both(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    Both.apply(leaf(x)).sum().backward()


def _without(t, x, name):
    class Half(t.autograd.Function):
        if name == "backward":

            @staticmethod
            def forward(ctx, a):
                return a * 1

    Half.apply(leaf(x)).sum().backward()


def _returned_view(t, x, several):
    def forward(ctx, a):
        return (a[:2], a[1:]) if several else a[:2]

    result = _custom(t, lambda ctx, *g: None, forward)(inner(x))
    (result[0] if several else result).add_(1)


def _hooked(hook: Any) -> Callable[[Any, Any], None]:
    def story(t, x):
        a = leaf(x)
        a.register_hook(lambda g: hook(t, g))
        a.sum().backward()

    return story


def _node_hooked(name: str, hook: Any) -> Callable[[Any, Any], None]:
    def story(t, x):
        y = leaf(x) * leaf(x)
        getattr(y.grad_fn, name)(hook)
        y.sum().backward()

    return story


def _post_hook(t, x):
    a = leaf(x)
    a.register_post_accumulate_grad_hook(lambda p: 3)
    a.sum().backward()


def _packed(pack: Any, unpack: Any) -> Callable[[Any, Any], None]:
    def story(t, x):
        with t.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = leaf(x) * leaf(x)
        y.sum().backward()

    return story


def _disabled(t, x):
    with t.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        with t.autograd.graph.saved_tensors_hooks(lambda a: a, lambda a: a):
            pass


def _disabling(t, x):
    with t.autograd.graph.saved_tensors_hooks(lambda a: a, lambda a: a):
        with t.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
            pass


def _anomaly(make: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def story(t, x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                make(leaf(x)).backward()

    return story


def _anomaly_version(t, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with t.autograd.detect_anomaly():
            _stale(lambda m: m * m, lambda m: m.add_(1))(t, x)


def _unused(**options: Any) -> Callable[[Any, Any], None]:
    return lambda t, x: t.autograd.grad(leaf(x).sum(), leaf(x), **options)


def _checkpoint(t: Any) -> Any:
    from importlib import import_module

    return import_module(t.module.__name__ + ".utils.checkpoint").checkpoint


def _reentrant_grad(t, x):
    a = leaf(x)
    t.autograd.grad(_checkpoint(t)(lambda b: b.sin(), a, use_reentrant=True).sum(), a)


def _checkpoint_twice(t, x):
    y = _checkpoint(t)(lambda b: b.sin(), leaf(x), use_reentrant=False).sum()
    y.backward()
    y.backward()


STORIES: dict[str, Callable[[Any, Any], Any]] = {
    # the backward pass
    "not a scalar": lambda t, x: inner(x).backward(),
    "no gradient": lambda t, x: x.sum().backward(),
    "not a tensor": lambda t, x: t.autograd.backward(3),
    "cotangent of another shape": lambda t, x: inner(x).backward(x[:2]),
    "list of cotangents": lambda t, x: t.autograd.backward([inner(x)], [None]),
    "complex cotangent": lambda t, x: inner(x).backward(t.ones(3, dtype=t.complex64, device=x.device)),
    "complex output": lambda t, x: (leaf(x) * 2j).sum().backward(),
    "no inputs": lambda t, x: leaf(x).sum().backward(inputs=[]),
    "inputs without gradient": lambda t, x: leaf(x).sum().backward(inputs=[x]),
    "inputs of another kind": lambda t, x: leaf(x).sum().backward(inputs=[3]),
    "grad without inputs": lambda t, x: t.autograd.grad(leaf(x).sum(), []),
    "grad of a constant": lambda t, x: t.autograd.grad(leaf(x).sum(), x),
    "grad of another kind": lambda t, x: t.autograd.grad(leaf(x).sum(), [3]),
    "unused": _unused(),
    "unused, not allowed": _unused(materialize_grads=True, allow_unused=False),
    "twice": _twice,
    "custom twice": _custom_twice,
    "checkpoint twice": _checkpoint_twice,
    # leaves and flags
    "integers": lambda t, x: x.long().requires_grad_(),
    "integers, flag": lambda t, x: setattr(x.long(), "requires_grad", True),
    "flag of a result": lambda t, x: inner(x).requires_grad_(False),
    "flag that is none": lambda t, x: setattr(x, "requires_grad", 3),
    "leaf in place": lambda t, x: leaf(x).add_(1),
    "leaf zeroed": lambda t, x: leaf(x).zero_(),
    "leaf copied into": lambda t, x: leaf(x).copy_(x),
    "leaf drawn into": lambda t, x: leaf(x).uniform_(),
    "leaf activated in place": lambda t, x: t.F.silu(leaf(x), inplace=True),
    "view of leaf in place": lambda t, x: leaf(x)[0].add_(1),
    "item of leaf": lambda t, x: leaf(x).__setitem__(0, 1.0),
    "detach_ of view": lambda t, x: inner(x)[0].detach_(),
    "view from no_grad": _no_grad_view(inner),
    "view of leaf from no_grad": _no_grad_view(leaf),
    "view from inference": _inference_view,
    "unbound": lambda t, x: inner(x).unbind()[1].add_(1),
    "iterated": lambda t, x: list(inner(x))[0].add_(1),
    "split": lambda t, x: inner(x).split(1)[2].add_(1),
    "chunk": lambda t, x: inner(x).chunk(2)[0].add_(1),
    "unbound leaf": lambda t, x: leaf(x).unbind()[0].add_(1),
    "unbound constant": lambda t, x: x.unbind()[0].add_(leaf(x)[0]),
    "expanded in place": lambda t, x: inner(x)[:1].expand(3).add_(1),
    "gradient of another kind": lambda t, x: setattr(leaf(x), "grad", 3),
    "gradient of another shape": lambda t, x: setattr(leaf(x), "grad", x[:2]),
    "gradient of itself": lambda t, x: (lambda a: setattr(a, "grad", a))(leaf(x)),
    "data of another kind": lambda t, x: setattr(leaf(x), "data", 3),
    "numpy": lambda t, x: leaf(x).numpy(),
    "deepcopy": lambda t, x: copy.deepcopy(inner(x)),
    "retain_grad": lambda t, x: x.retain_grad(),
    "grad mode of another kind": lambda t, x: t.set_grad_enabled("x"),
    # versions
    "stale operand": _stale(lambda m: m * m, lambda m: m.add_(1)),
    "stale operand of a function": _stale(lambda m: m.sin(), lambda m: m.mul_(2)),
    "stale operand, written through a view": _stale(lambda m: m * m, lambda m: m[0].add_(1)),
    "stale view": _stale(lambda m: m[:2] * m[:2], lambda m: m.add_(1)),
    "stale leaf": _stale_leaf,
    "stale result": _stale_result,
    "stale operand of a custom function": _stale_custom,
    # inference mode
    "inference saved": lambda t, x: leaf(x) * _inference(t, x),
    "inference in place": lambda t, x: _inference(t, x).add_(1),
    "inference version": lambda t, x: _inference(t, x)._version,
    "inference requires": lambda t, x: _inference(t, x).requires_grad_(),
    # custom functions
    "too few gradients": lambda t, x: _custom(t, lambda ctx, g: g)(leaf(x), leaf(x)).sum().backward(),
    "too many gradients": lambda t, x: _custom(t, lambda ctx, g: (g, g))(leaf(x)).sum().backward(),
    "gradient of a number": lambda t, x: _custom(t, lambda ctx, g: (g, g))(leaf(x), 2).sum().backward(),
    "gradient that does not fit": lambda t, x: _custom(t, lambda ctx, g: g[:2])(leaf(x)).sum().backward(),
    "gradient that is a number": lambda t, x: _custom(t, lambda ctx, g: 3)(leaf(x)).sum().backward(),
    "exception inside": lambda t, x: _custom(t, lambda ctx, g: 1 // 0)(leaf(x)).sum().backward(),
    "saved number": lambda t, x: _custom(t, None, lambda ctx, a: ctx.save_for_backward(3))(leaf(x)),
    "dirty leaf": lambda t, x: _dirty(t, x, leaf),
    "dirty view of leaf": lambda t, x: _dirty(t, x, lambda x: leaf(x)[:2]),
    "dirty, not returned": _dirty_not_returned,
    "once differentiable": _once,
    "backward and vjp": _both,
    "no backward": lambda t, x: _without(t, x, "backward"),
    "no forward": lambda t, x: _without(t, x, "forward"),
    "view in place": lambda t, x: _returned_view(t, x, False),
    "views in place": lambda t, x: _returned_view(t, x, True),
    # hooks
    "hook on a constant": lambda t, x: x.register_hook(print),
    "hook returns a number": _hooked(lambda t, g: 3),
    "hook changes the shape": _hooked(lambda t, g: g[:2]),
    "hook changes the type": _hooked(lambda t, g: g.half()),
    "hook fails": _hooked(lambda t, g: 1 // 0),
    "post hook on a result": lambda t, x: inner(x).register_post_accumulate_grad_hook(print),
    "post hook on a constant": lambda t, x: x.register_post_accumulate_grad_hook(print),
    "post hook returns": _post_hook,
    "node hook returns one of two": _node_hooked("register_hook", lambda a, b: (a[0],)),
    "node hook returns a number": _node_hooked("register_hook", lambda a, b: 3),
    "node pre-hook returns two": _node_hooked("register_prehook", lambda a: (a[0], a[0])),
    # the graph
    "edge of a constant": lambda t, x: t.autograd.graph.get_gradient_edge(x),
    "hook on several constants": lambda t, x: t.autograd.graph.register_multi_grad_hook([x], print),
    "hook of another mode": lambda t, x: t.autograd.graph.register_multi_grad_hook([leaf(x)], print, mode="x"),
    "hooks disabled": _disabled,
    "hooks active": _disabling,
    "packing in place": _packed(lambda a: a.add_(1), lambda a: a),
    "unpacking a number": _packed(lambda a: a, lambda a: 3),
    "version of a number": lambda t, x: t.autograd.graph.increment_version(3),
    "version of numbers": lambda t, x: t.autograd.graph.increment_version([3]),
    # anomaly mode
    "nan": _anomaly(lambda a: (a * 0).sqrt().mul(0).sum()),
    "nan of the second input": _anomaly(lambda a: ((a * 0) / (a * 0)).sum()),
    "stale in anomaly mode": _anomaly_version,
    # checkpoints
    "checkpoint with keywords": lambda t, x: _checkpoint(t)(lambda a, k: a, leaf(x), k=1, use_reentrant=True),
    "checkpoint with contexts": lambda t, x: _checkpoint(t)(
        lambda a: a, leaf(x), use_reentrant=True, context_fn=lambda: 1
    ),
    "reentrant checkpoint, grad": _reentrant_grad,
    "checkpoint of another check": lambda t, x: _checkpoint(t)(
        lambda a: a, leaf(x), use_reentrant=False, determinism_check="x"
    ),
}


def _refusal(function: Callable[[Any, Any], Any], t: Any, x: Any) -> tuple[type, str]:
    try:
        result = function(t, x)
    except Exception as error:  # noqa: BLE001 - whatever is raised is compared
        return type(error), re.sub(r"torch\.webgpu\.|webgpu:0|webgpu", "torch.", str(error)).replace(
            "torch.torch", "torch"
        )
    raise AssertionError(f"accepted: {result}")


@pytest.mark.parametrize("name", sorted(STORIES))
def test_refused_alike(name: str, device: str) -> None:
    x = sample((3,), torch.float32, 1, 0.2, 1.5)
    expected = _refusal(STORIES[name], ORACLE, x.clone())
    actual = _refusal(STORIES[name], OURS, to_ours(x, device))
    assert actual == expected
