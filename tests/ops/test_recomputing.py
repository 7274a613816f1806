"""What nodes and checkpoints keep: saved results, repetitions that end early, and what they say where these differ; as in PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours


def _module(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.utils.checkpoint")


def _counted(t: Any, function: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], list[int]]:
    calls: list[int] = []

    def counted(value: Any) -> Any:
        calls.append(1)
        return function(value)

    return counted, calls


def _early_stop(t: Any, enable: bool) -> Any:
    last, calls = _counted(t, lambda v: v.clone())
    x = t.tensor(1.0, requires_grad=True)
    with _module(t).set_checkpoint_early_stop(enable):
        result = _module(t).checkpoint(lambda v: last(v.sin().cos()), x, use_reentrant=False)
    result.backward()
    return len(calls), x.grad.item()


def _nothing_saved(t: Any) -> Any:
    function, calls = _counted(t, lambda v: v.clone())
    x = t.tensor(1.0, requires_grad=True)
    _module(t).checkpoint(function, x, use_reentrant=False).backward()
    return len(calls)


def _looked_at(t: Any) -> Any:
    function, calls = _counted(t, lambda v: (v * v).exp())
    x = t.tensor([0.5, 1.0], requires_grad=True)
    result = _module(t).checkpoint(function, x, use_reentrant=False)
    seen = [result.grad_fn._saved_result.tolist(), result.grad_fn._saved_result.tolist()]
    result.sum().backward()
    return seen, len(calls), x.grad.tolist()


def _gradients_inside(t: Any) -> Any:
    checkpoint = _module(t).checkpoint

    def slope(function: Any) -> Any:
        def run(v: Any) -> Any:
            with t.enable_grad():
                return t.autograd.grad(function(v), v, create_graph=True)[0]

        return run

    def kept(function: Any) -> Any:
        return lambda v: checkpoint(function, v, use_reentrant=False)

    x = t.tensor(0.7, requires_grad=True)
    return slope(kept(slope(kept(lambda v: v.sin().exp().sin()))))(x).item()


def _in_lower_precision(t: Any) -> Any:
    seen: list[str] = []

    def function(a: Any, b: Any) -> Any:
        seen.append(str((a @ b).dtype).rpartition(".")[2])
        return a @ b

    a, b = t.ones(2, 2, requires_grad=True), t.ones(2, 2, requires_grad=True)
    with t.autocast("cpu", dtype=t.bfloat16):
        result = _module(t).checkpoint(function, a, b, use_reentrant=False)
    result.sum().backward()
    return seen, a.grad.tolist()


def _hook_inside(t: Any) -> Any:
    calls: list[int] = []
    x = t.tensor(1.0, requires_grad=True)
    result = _module(t).checkpoint(lambda v: v.sin().cos().sin(), x, use_reentrant=False)
    result.grad_fn.next_functions[0][0].register_hook(lambda *_: calls.append(1))
    result.backward()
    return len(calls), x.grad.item()


STORIES: dict[str, Callable[[Any], Any]] = {
    "early stop": lambda t: _early_stop(t, True),
    "no early stop": lambda t: _early_stop(t, False),
    "nothing saved": _nothing_saved,
    "looked at": _looked_at,
    "gradients inside": _gradients_inside,
    "autocast": _in_lower_precision,
    "a hook inside": _hook_inside,
}


@pytest.mark.parametrize("name", STORIES)
def test_repetitions(name: str) -> None:
    expected, found = (STORIES[name](t) for t in (torch, ours))
    assert _near(found, expected), (found, expected)


def _near(found: Any, expected: Any) -> bool:
    if isinstance(expected, tuple | list):
        return len(found) == len(expected) and all(map(_near, found, expected))
    return found == (pytest.approx(expected, rel=1e-4, abs=1e-5) if isinstance(expected, float) else expected)


def _differing(t: Any, *functions: Callable[[Any], Any], **options: Any) -> str:
    turns = iter(functions)
    x = t.tensor([0.5], requires_grad=True)
    with pytest.raises(RuntimeError) as told:
        _module(t).checkpoint(lambda v: next(turns)(v), x, use_reentrant=False, **options).sum().backward()
    return str(told.value)


def test_repetitions_that_differ() -> None:
    for t in (torch, ours):
        two, three = (lambda v: v.sin().exp()), (lambda v: v.sin().exp().sin())
        assert "A different number of tensors was saved" in _differing(t, three, two)
        with _module(t).set_checkpoint_early_stop(False):
            assert "trying to save more tensors during recomputation" in _differing(t, two, three)
        wider = lambda v: v.sin() * t.tensor([1.0, 2.0])  # noqa: E731
        assert "different metadata" in _differing(t, two, wider)
        assert "because you passed `debug=True` to checkpoint" in _differing(t, two, wider, debug=True)
        with _module(t).set_checkpoint_debug_enabled(False):
            assert "different metadata" in _differing(t, two, wider, debug=True)


def test_nothing_is_kept_of_a_checkpoint() -> None:
    """Layers whose backward needs their result, or its parts, keep nothing past the hooks either."""
    kept: list[Any] = []
    network = ours.nn.Sequential(ours.nn.Linear(4, 4), ours.nn.LayerNorm(4), ours.nn.Softmax(-1), ours.nn.Linear(4, 4))
    x = ours.ones(2, 4, requires_grad=True)
    result = _module(ours).checkpoint(network, x, use_reentrant=False)
    waiting, seen = [result.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [each for each, _ in node.next_functions]
        for cell in getattr(node.backward, "__closure__", None) or ():
            kept += [cell.cell_contents] if isinstance(cell.cell_contents, ours.Tensor) else []
    assert len(seen) > 5
    assert kept == []


def test_saved_results() -> None:
    for t in (torch, ours):
        a = t.tensor([0.5, 1.0], requires_grad=True)
        for name in ("exp", "sigmoid", "tanh", "sqrt"):
            y = getattr(t, name)(a)
            assert y.grad_fn._saved_result.tolist() == y.tolist()
            assert y.grad_fn._saved_result.grad_fn is y.grad_fn
        y = a.exp()
        y.grad_fn._raw_saved_result.register_hooks(lambda v: v, lambda v: v)
        with pytest.raises(RuntimeError, match="already been set"):
            y.grad_fn._raw_saved_result.register_hooks(lambda v: v, lambda v: v)
        y.sum().backward()
        assert a.grad.tolist() == pytest.approx(y.tolist())
        with pytest.raises(RuntimeError, match="already been freed"):
            _ = y.grad_fn._saved_result


def test_detached_since() -> None:
    for t in (torch, ours):
        a = t.tensor(1.0, requires_grad=True).clone()
        b = a.sin()
        a.detach_()
        with pytest.raises(RuntimeError, match="Trying to use a saved tensor that has been detached"):
            b.backward()


def _sparse(t: Any, layout: str) -> Any:
    block = {"blocksize": (2, 2)} if layout.startswith("sparse_bs") else {}
    values = t.arange(8.0, dtype=t.float64).reshape(2, 4) % 3 + 0.5
    return values.to_sparse(layout=getattr(t, layout), **block).requires_grad_()


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("masked", [True, False])
def test_gradients_of_sparse_tensors(layout: str, masked: bool) -> None:
    for t in (torch, ours):
        for fast in (True, False):
            assert t.autograd.gradcheck(t.sum, (_sparse(t, layout),), masked=masked, fast_mode=fast)
    # Of squares the first call is right, and one with a slope of its own is not.
    assert ours.autograd.gradcheck(lambda x: x.to_dense() ** 2, (_sparse(ours, layout),), masked=masked)

    class Wrong(ours.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 3

    assert not ours.autograd.gradcheck(
        lambda x: Wrong.apply(x.to_dense()), (_sparse(ours, layout),), masked=masked, raise_exception=False
    )


def test_layouts_of_gradients() -> None:
    for t in (torch, ours):

        class ToSparse(t.autograd.Function):  # type: ignore[name-defined,misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.clone()

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                return gradient.to_sparse()

        with pytest.raises(RuntimeError, match="grad is incorrect layout"):
            t.autograd.gradcheck(ToSparse.apply, (t.ones(1, dtype=t.float64, requires_grad=True),))


@pytest.mark.filterwarnings("ignore:.*private API")
@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_jacobians_and_missing_gradients() -> None:
    for t in (torch, ours):
        checks = importlib.import_module(f"{t.__name__}.autograd.gradcheck")
        a, b = (t.rand(2, dtype=t.float64, requires_grad=True) for _ in range(2))
        numerical = checks.get_numerical_jacobian(lambda pair: (2 * pair[0] + pair[1], pair[0]), (a, b), eps=1e-6)
        found = checks.get_analytical_jacobian((a, b), 2 * a + b)
        for one, other in zip(numerical, found[0], strict=True):
            assert t.allclose(one, other)
        assert found[1:] == (True, True, True)

        def strict(x: Any) -> Any:
            def hook(gradient: Any) -> None:
                if gradient is None:
                    raise RuntimeError("no gradient")

            y = x.clone()
            y.register_hook(hook)
            return y

        with pytest.raises(RuntimeError, match="Expected backward function to handle undefined output grads"):
            t.autograd.gradcheck(strict, (a,))
