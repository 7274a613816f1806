"""Hooks, nodes, saved tensors, anomaly mode and custom functions against PyTorch: one story told to both."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from ops_oracle import ORACLE, OURS, compare, sample, to_ours


def leaf(x: Any) -> Any:
    return x.detach().clone().requires_grad_()


def hook_order(t, x, y):
    seen = []
    a = leaf(x)
    a.register_hook(lambda g: seen.append("first") or g * 2)
    a.register_hook(lambda g: seen.append("second") or g + 1)
    a.register_post_accumulate_grad_hook(lambda p: seen.append("after"))
    b = a * y
    b.retain_grad()
    b.register_hook(lambda g: g * 3)
    b.grad_fn.register_hook(lambda parts, grads: seen.append("node") or (parts[0] * 5, parts[1]))
    b.grad_fn.register_prehook(lambda grads: seen.append("before node") or (grads[0] + 7,))
    b.sum().backward()
    return seen, a.grad, b.grad


def hooks_and_writes(t, x, y):
    """Hooks are on the value that a tensor has when they are registered; retain_grad follows the tensor."""
    a = leaf(x)
    b = a * 2
    old, new = [], []
    b.register_hook(lambda g: old.append(g.clone()))
    b.mul_(3)
    b.register_hook(lambda g: new.append(g.clone()))
    (b * y).sum().backward()
    return old, new, a.grad


def retained_after_write(t, x, y):
    a = leaf(x)
    b = a * 2
    b.retain_grad()
    b.mul_(y)
    (b * b).sum().backward()
    return b.grad, a.grad, b.retains_grad


def removal(t, x, y):
    a = leaf(x)
    b = a * y
    handles = [b.register_hook(lambda g: g * 2), b.grad_fn.register_hook(lambda p, g: (p[0] * 3, *p[1:]))]
    handles.append(b.grad_fn.register_prehook(lambda g: (g[0] * 5,)))
    b.sum().backward(retain_graph=True)
    first = a.grad.clone()
    for each in handles:
        each.remove()
    b.sum().backward()
    return first, a.grad


def hook_inside_grad(t, x, y):
    a = leaf(x)
    a.register_hook(lambda g: g * 2)
    b = a * y
    b.register_hook(lambda g: g * 3)
    return t.autograd.grad((b * b).sum(), [b, a])


def several_gradients(t, x, y):
    a, b = leaf(x), leaf(y)
    seen = []
    middle = [a * b, a + b, a.exp()]
    graph = t.autograd.graph
    graph.register_multi_grad_hook(middle, lambda grads: seen.append([g is not None for g in grads]))
    handle = graph.register_multi_grad_hook(middle, lambda g: seen.append("any"), mode="any")
    (middle[0] * middle[1]).sum().backward(retain_graph=True)
    handle.remove()
    (middle[0] * middle[1] + middle[2]).sum().backward()
    return seen


def edges(t, x, y):
    a = leaf(x)
    b = a * y
    edge = t.autograd.graph.get_gradient_edge(b)
    inside = t.autograd.graph.get_gradient_edge(a)
    total = (b * b).sum()
    first = t.autograd.grad(total, [edge, inside], retain_graph=True)
    second = t.autograd.grad(edge, a, y)
    return first, second, edge.output_nr


def names(t, x, y):
    a = leaf(x)
    b = a * y + a.exp().sum()
    view = (a * 1)[:1]
    view.add_(1)
    node = b.grad_fn
    return (
        node.name(),
        type(node).__name__,
        [each.name() for each, _ in node.next_functions],
        node.next_functions[0][0].next_functions[0][0].variable is a,
        node.next_functions[0][0].next_functions[1] == (None, 0),
        isinstance(node, t.autograd.graph.Node),
        node.metadata,
        view.grad_fn.name(),
        view._base.grad_fn.name(),
        a.expand(2, *a.shape).grad_fn.next_functions[0][0].name(),
    )


def saved_hooks(t, x, y):
    packed = []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor * 2

    a, b = leaf(x), leaf(y)
    with t.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor / 2):
        z = (a * b).sum()
    (slope,) = t.autograd.grad(z, a, create_graph=True)
    (slope * slope).sum().backward()
    return packed, slope, b.grad


def saved_on_cpu(t, x, y):
    a = leaf(x)
    with t.autograd.graph.save_on_cpu():
        z = (a.exp() * y @ a.T).tanh().softmax(-1).sum() + (a * a).sum()
    z.backward()
    return a.grad


def version(t, x, y):
    before = x._version
    t.autograd.graph.increment_version(x)
    t.autograd.graph.increment_version([x, y])
    return x._version - before, y._version


def batched_cotangents(t, x, y):
    a = leaf(x)
    seeds = t.stack([y, y * 2, y * 0])
    return t.autograd.grad(a.exp() * 2, a, seeds, is_grads_batched=True)


def not_shared(t, x, y):
    """What a leaf accumulates is its own: not another leaf's, nor the caller's."""

    class Same(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, g

    a, b, seed = leaf(x), leaf(y), y.clone()
    kept = []
    a.register_hook(kept.append)
    Same.apply(a, b).backward(seed)
    a.grad.zero_()
    b.grad.mul_(2)
    return a.grad, b.grad, seed, kept


def layout_of_gradients(t, x, y):
    a, b = leaf(x.T), leaf(x)
    (a.T * y).sum().backward()
    b.sum().backward()
    b.grad.mul_(2)
    return a.grad, a.grad.stride(), b.grad, b.grad.stride()


def no_saved_tensors(t, x, y):
    a = leaf(x)
    total = (a + y).reshape(-1).sum()
    total.backward()
    total.backward()
    return a.grad


def generators(t, x, y):
    a = leaf(x)

    @t.no_grad()
    def numbers():
        received = yield (a * 2).requires_grad
        yield received, (a * 3).requires_grad
        try:
            yield "waiting"
        except ValueError as error:
            yield str(error), t.is_grad_enabled()
        return "end"

    run = numbers()
    seen = [next(run), t.is_grad_enabled(), run.send("sent"), t.is_grad_enabled(), next(run)]
    seen.append(run.throw(ValueError("thrown")))
    try:
        next(run)
    except StopIteration as stop:
        seen.append(stop.value)
    return seen


def switches(t, x, y):
    seen = []
    with t.set_grad_enabled(False):
        seen.append(t.is_grad_enabled())
    t.set_grad_enabled(False)
    seen.append(t.is_grad_enabled())
    t.set_grad_enabled(True)

    @t.set_grad_enabled(False)
    def quiet():
        return t.is_grad_enabled()

    @t.no_grad
    def bare():
        return t.is_grad_enabled()

    @t.inference_mode()
    def inferring():
        return t.is_inference_mode_enabled(), t.is_grad_enabled(), (x * 1).is_inference()

    seen += [t.is_grad_enabled(), quiet(), bare(), inferring(), t.is_grad_enabled()]
    with t.inference_mode():
        with t.inference_mode(False):
            seen.append((t.is_inference_mode_enabled(), t.is_grad_enabled()))
        made = x * 2
    return (
        seen,
        made.is_inference(),
        made[0].is_inference(),
        made.clone().is_inference(),
        (leaf(x) + made).requires_grad,
    )


def context(t, x, y):
    class Context(t.autograd.Function):
        @staticmethod
        def forward(a, b, scale=3):
            return a * b * scale, (a > 0)

        @staticmethod
        def setup_context(ctx, inputs, output):
            a, b, ctx.scale = inputs
            ctx.save_for_backward(a, b)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, unused):
            a, b = ctx.saved_tensors
            return g * b * ctx.scale if ctx.needs_input_grad[0] else None, g * a * ctx.scale, None

    a, b = leaf(x), leaf(y)
    product, flags = Context.apply(a, b, scale=2)
    node = product.grad_fn
    shown = (
        node.name(),
        type(node).__name__,
        node.scale,
        node.needs_input_grad,
        [each.shape for each in node.saved_tensors],
    )
    slopes = t.autograd.grad((product * product).sum(), [a, b], create_graph=True)
    second = t.autograd.grad(slopes[0].sum() + slopes[1].sum(), [a, b])
    return product, flags, [str(each) for each in shown], slopes, second


def materialized(t, x, y):
    def story(flag):
        class Pair(t.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.set_materialize_grads(flag)
                return a * 1, a * 2

            @staticmethod
            def backward(ctx, one, two):
                seen.append((one is None, two is None))
                return two * 2 if one is None else one

        a = leaf(x)
        Pair.apply(a)[1].sum().backward()
        return a.grad

    seen = []
    return story(True), story(False), seen


def saved_result(t, x, y):
    class Exponential(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            result = a.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    a = leaf(x)
    z = Exponential.apply(a)
    slope = t.autograd.grad(z.sum(), a, create_graph=True)[0]
    curve = t.autograd.grad(slope.sum(), a, create_graph=True)[0]
    return z, slope, curve, t.autograd.grad(curve.sum(), a)


def reduced(t, x, y):
    """A gradient of a broadcast shape and of another type is made to fit."""

    class Wide(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return t.ones(2, *g.shape, dtype=t.float16, device=g.device)

    a = leaf(x)
    Wide.apply(a).sum().backward()
    return a.grad


def dirty_view(t, x, y):
    class Add(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            a.add_(1)
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 3

    a = leaf(x)
    b = a * 2
    view = b[1:]
    result = Add.apply(view)
    (b * b).sum().backward()
    return result is view, b, a.grad, view.grad_fn.name(), b.grad_fn.name()


def returned_input(t, x, y):
    class Same(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 5

    a = leaf(x)
    b = Same.apply(a)
    (b * y).sum().backward()
    return b is a, b.grad_fn.name(), a.grad


def none_runs_on(t, x, y):
    """A node whose gradient is None still runs, as its function may want."""
    seen = []

    class Stop(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            seen.append("stop")

    class Zero(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(float(g.abs().sum()))
            return g

    a = leaf(x)
    Stop.apply(Zero.apply(a)).sum().backward()
    return seen, a.grad


def inplace_activations(t, x, y):
    found = []
    for name in ("silu", "leaky_relu", "elu", "selu", "celu", "hardtanh", "hardswish", "mish", "relu6"):
        a = leaf(x - 1)
        b = a * 1.5
        result = getattr(t.F, name)(b[:, 1:], inplace=True)
        (b * b).sum().backward()
        found.append((b, a.grad, b.grad_fn.name(), result.grad_fn.name()))
        c = leaf(x - 1)
        d = c * 1
        getattr(t.F, name)(d, inplace=True)
        found.append(t.autograd.grad((d * y).sum(), c)[0])
    return found


STORIES = [
    hook_order, hooks_and_writes, retained_after_write, removal, hook_inside_grad, several_gradients, edges, names, saved_hooks,
    saved_on_cpu, version, batched_cotangents, not_shared, layout_of_gradients, no_saved_tensors, generators, switches, context,
    materialized, saved_result, reduced, dirty_view, returned_input, none_runs_on, inplace_activations,
]  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_stories(story: Any, device: str) -> None:
    x, y = sample((3, 4), torch.float32, 1, 0.2, 1.5), sample((3, 4), torch.float32, 2, 0.2, 1.5)
    expected = story(ORACLE, x.clone(), y.clone())
    compare(story(OURS, to_ours(x, device), to_ours(y, device)), expected, where=story.__name__)


def _forward(x: Any) -> Any:
    return x.sqrt()


def _anomalies(t: Any, x: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with t.autograd.detect_anomaly():
            assert t.is_anomaly_enabled() and t.is_anomaly_check_nan_enabled()
            total = (_forward(leaf(x) * 0) * 0).sum()
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
                total.backward()
    assert not t.is_anomaly_enabled()
    return [str(each.message) for each in caught]


def test_anomaly_mode_names_the_forward_line(device: str) -> None:
    x = sample((3,), torch.float32, 1, 0.2, 1.5)
    for started, failed in (_anomalies(ORACLE, x), _anomalies(OURS, to_ours(x, device))):
        assert started.startswith("Anomaly Detection has been enabled.")
        assert failed.startswith("Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n")
        # The last frame is the caller's line, not one of the library's.
        assert "in _forward\n" in failed[failed.rindex("  File ") :]


def test_anomaly_mode_switches() -> None:
    for t in (ORACLE, OURS):
        t.autograd.set_detect_anomaly(True, check_nan=False)
        assert t.is_anomaly_enabled() and not t.is_anomaly_check_nan_enabled()
        with t.autograd.set_detect_anomaly(False):
            assert not t.is_anomaly_enabled()
        assert t.is_anomaly_enabled()
        t.set_anomaly_enabled(False)
        assert not t.is_anomaly_enabled() and t.is_anomaly_check_nan_enabled()


def test_anomaly_of_a_second_backward_names_both(device: str) -> None:
    x = to_ours(sample((3,), torch.float32, 1, 0.2, 1.5), device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ours.autograd.detect_anomaly():
            a = leaf(x)
            (slope,) = ours.autograd.grad((a**1.5).sum(), a, create_graph=True)
            with pytest.raises(RuntimeError, match="returned nan"):
                ((slope * 0).sqrt() * 0).sum().backward()
    assert "Error detected in SqrtBackward0" in str(caught[1].message)


def test_warning_about_inner_gradients(device: str) -> None:
    x = sample((3,), torch.float32)
    for value in (x, to_ours(x, device)):
        inner = leaf(value) * 2
        with pytest.warns(
            UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"
        ):
            assert inner.grad is None
        inner.retain_grad()
        inner.sum().backward()
        assert inner.grad is not None


@pytest.mark.filterwarnings("ignore::webgpu_torch_core.operations.host_algorithms.HostFallbackWarning")
def test_saved_results_do_not_keep_their_graph(device: str) -> None:
    """A function that saves its own result is freed without the collector's help, backward or not."""

    class Exponential(ours.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            result = a.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    a = ours.rand(3, 3, device=device).requires_grad_()
    operations = {
        "custom": Exponential.apply, "inverse": ours.linalg.inv, "softmax": lambda v: v.softmax(-1), "exp": ours.exp,
        "solve": lambda v: ours.linalg.solve(v, v), "cholesky": lambda v: ours.linalg.cholesky(v @ v.T),
        "pinv": ours.linalg.pinv, "svd": lambda v: ours.linalg.svd(v)[1], "qr": lambda v: ours.linalg.qr(v)[0],
        "max_pool": lambda v: ours.nn.functional.max_pool1d(v, 2), "cumprod": lambda v: v.cumprod(0),
        "layer_norm": lambda v: ours.nn.functional.layer_norm(v, (3,)), "norm": lambda v: v.norm(),
        "det": ours.linalg.det, "eigh": lambda v: ours.linalg.eigvalsh(v @ v.T), "logsumexp": lambda v: v.logsumexp(0),
    }  # fmt: skip
    gc.collect()
    gc.disable()
    try:
        for name, operation in operations.items():
            result = operation(a)
            node = weakref.ref(result.grad_fn)
            del result
            assert node() is None, name
    finally:
        gc.enable()
