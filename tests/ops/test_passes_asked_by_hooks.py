"""Backward passes as hooks and nodes see them, beside PyTorch: their order, what arrives, what was saved, which nodes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours


def _outcome(run: Callable[[Any], Any], library: Any) -> Any:
    try:
        return run(library)
    except (RuntimeError, TypeError) as error:
        return type(error).__name__, str(error)


def _leaf(library: Any, *values: float) -> Any:
    return library.tensor(list(values), requires_grad=True)


def hooks_of_outputs_without_gradients(library: Any) -> Any:
    seen: list[Any] = []

    class Two(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first + second

    first, second = Two.apply(_leaf(library, 1.0))
    first.register_hook(lambda gradient: seen.append(gradient is None))
    second.sum().backward()
    return seen


def order_with_inputs(library: Any) -> Any:
    seen: list[str] = []
    leaf = _leaf(library, 1.0)
    inner = leaf.clone()
    node = inner.grad_fn.next_functions[0][0]
    for name, each in (("leaf", leaf), ("inner", inner)):
        each.register_hook(lambda _, name=name: seen.append(name))
    node.register_prehook(lambda _: seen.append("before leaf"))
    node.register_hook(lambda *_: seen.append("after leaf"))
    inner.grad_fn.register_prehook(lambda _: seen.append("before inner"))
    inner.grad_fn.register_hook(lambda *_: seen.append("after inner"))
    inner.sum().backward(inputs=(inner,), retain_graph=True)
    seen.append("|")
    inner.sum().backward(inputs=(leaf, inner), retain_graph=True)
    seen.append("|")
    library.autograd.grad(inner.sum(), (leaf,))
    return seen, leaf.grad.item(), inner.grad.item()


def hook_after_accumulation(library: Any) -> Any:
    leaf = _leaf(library, 1.0)
    leaf.register_post_accumulate_grad_hook(lambda each: each.grad)
    leaf.sum().backward()


def zeros_to_differentiate(library: Any) -> Any:
    x, y = _leaf(library, 1.0), _leaf(library, 2.0)
    (first,) = library.autograd.grad((x * 2).sum(), y, None, None, True, allow_unused=True, materialize_grads=True)
    (second,) = library.autograd.grad(first.sum(), y, materialize_grads=True)
    return first.tolist(), second.tolist()


def zeros_of_an_edge(library: Any) -> Any:
    edge = library.autograd.graph.get_gradient_edge(_leaf(library, 2.0))
    library.autograd.grad(_leaf(library, 1.0).sum(), edge, allow_unused=True, materialize_grads=True)


def callbacks_of_callbacks(library: Any) -> Any:
    seen: list[int] = []
    queue = library.autograd.Variable._execution_engine.queue_callback
    leaf = _leaf(library, 1.0)
    inner = leaf * 2
    inner.register_hook(lambda _: queue(lambda: (seen.append(1), queue(lambda: seen.append(2)))))
    inner.sum().backward()
    return seen


def numbers_of_passes(library: Any) -> Any:
    seen: list[int] = []
    inner = _leaf(library, 1.0).clone()
    inner.register_hook(lambda _: seen.append(library._C._current_graph_task_id()))
    inner.sum().backward(retain_graph=True)
    inner.sum().backward()
    return seen[1] - seen[0], library._C._current_graph_task_id()


def nodes_that_run(library: Any) -> Any:
    seen: list[Any] = []
    one, other = _leaf(library, 1.0), _leaf(library, 2.0)
    product = one * other
    unused = product.cos()
    nodes = [product.grad_fn, unused.grad_fn, *(each[0] for each in product.grad_fn.next_functions)]
    product.register_hook(lambda _: seen.append([library._C._will_engine_execute_node(each) for each in nodes]))
    product.sum().backward(inputs=(one,), retain_graph=True)
    product.sum().backward()
    return seen


def asked_outside(library: Any) -> Any:
    return library._C._will_engine_execute_node(_leaf(library, 1.0).clone().grad_fn)


def called_node(library: Any) -> Any:
    node = (_leaf(library, 3.0) * _leaf(library, 5.0)).grad_fn
    given = library.tensor([2.0])
    return [each.tolist() for each in node(given)], _leaf(library, 0.0).exp().grad_fn(given).tolist()


def what_was_saved(library: Any) -> Any:
    left, right = _leaf(library, 3.0), _leaf(library, 5.0)
    product = left * right
    same = product.grad_fn._saved_self is left, product.grad_fn._saved_other is right
    product.grad_fn._raw_saved_self.register_hooks(lambda each: each * 2, lambda each: each * 5)
    product.sum().backward()
    return same, left.grad.tolist(), right.grad.tolist()


def saved_and_freed(library: Any) -> Any:
    product = _leaf(library, 3.0) * _leaf(library, 5.0)
    product.sum().backward()
    return product.grad_fn._saved_self


def hooks_are_refused_inside(library: Any) -> Any:
    enabled = library._C._autograd._saved_tensors_hooks_is_enabled
    with library.autograd.graph.disable_saved_tensors_hooks("no"):
        inside = enabled()
    return inside, enabled()


def constant_output_with_a_tangent(library: Any) -> Any:
    class Two(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            constant = x.clone()
            ctx.mark_non_differentiable(constant)
            return x.clone(), constant

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent, tangent.clone()

    forward = library.autograd.forward_ad
    with forward.dual_level():
        try:
            Two.apply(forward.make_dual(library.ones(2), library.ones(2)))
        except RuntimeError as error:
            return "You should return None at that position instead" in str(error)


def missing_gradients_of_constants(library: Any) -> Any:
    seen: list[Any] = []

    class Two(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            constant = x.clone()
            ctx.mark_non_differentiable(constant)
            ctx._materialize_non_diff_grads = False
            return x.clone(), constant

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append(second is None)
            return first

    Two.apply(_leaf(library, 1.0))[0].sum().backward()
    return seen


def double_backward_through_a_modules_hook(library: Any) -> Any:
    seen: list[int] = []
    loss, x = library.nn.MSELoss(), _leaf(library, 3.0)
    loss.register_full_backward_hook(lambda *_: seen.append(1))
    (first,) = library.autograd.grad(loss(x, library.zeros(1)), x, create_graph=True)
    (second,) = library.autograd.grad(first.sum(), x)
    return seen, second.tolist()


def modes_as_keywords(library: Any) -> Any:
    decorated = library.inference_mode(mode=lambda: library.is_inference_mode_enabled())
    with library.autograd.set_multithreading_enabled(False):
        inside = library.autograd.is_multithreading_enabled()
    return decorated(), inside, library.autograd.is_multithreading_enabled()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "run",
    [
        hooks_of_outputs_without_gradients, order_with_inputs, hook_after_accumulation, zeros_to_differentiate,
        callbacks_of_callbacks, numbers_of_passes, nodes_that_run, asked_outside, called_node, what_was_saved, saved_and_freed,
        hooks_are_refused_inside, constant_output_with_a_tangent, missing_gradients_of_constants,
        double_backward_through_a_modules_hook, modes_as_keywords,
    ],
)  # fmt: skip
def test_as_pytorch(run: Callable[[Any], Any]) -> None:
    expected = _outcome(run, torch)
    assert expected is not None
    assert _outcome(run, ours) == expected


def test_zeros_of_an_edge_are_refused() -> None:
    for library in (torch, ours):
        kind, text = _outcome(zeros_of_an_edge, library)
        assert kind == "RuntimeError"
        assert "does not require grad" in text or "cannot be used when the given input is a GradientEdge" in text
