"""Random numbers inside of ``vmap``, batches of cotangents, and small parts of the graph; as in PyTorch."""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

DRAWN: dict[str, Callable[[Any, Any], Any]] = {
    "randn": lambda t, x: t.randn(3),
    "rand of a size": lambda t, x: t.rand(size=(2, 3)),
    "randint": lambda t, x: t.randint(0, 100, (3,)),
    "randperm": lambda t, x: t.randperm(10),
    "normal": lambda t, x: t.normal(x, 1.0),
    "bernoulli": lambda t, x: t.bernoulli(x.abs() * 0 + 0.5),
    "rand_like": lambda t, x: t.rand_like(x),
    "in place": lambda t, x: x.clone().uniform_(),
    "exponential in place": lambda t, x: x.clone().exponential_(),
    "multinomial": lambda t, x: t.multinomial(x.abs() + 1, 2),
    "gamma": lambda t, x: t._standard_gamma(x.abs() + 1),
}


@pytest.mark.parametrize("name", DRAWN)
def test_each_example_draws(name: str) -> None:
    found = []
    for t in (torch, ours):
        x = t.arange(20.0).reshape(4, 5) / 4 + 0.5
        t.manual_seed(3)
        found.append(t.vmap(lambda each, t=t: DRAWN[name](t, each), randomness="different")(x).tolist())
    assert torch.allclose(*map(torch.tensor, found), rtol=1e-5)
    assert any(row != found[1][0] for row in found[1])


@pytest.mark.parametrize("name", ["randn", "randperm", "rand_like", "in place", "exponential in place"])
def test_all_examples_share(name: str) -> None:
    for t in (torch, ours):
        result = t.vmap(lambda each, t=t: DRAWN[name](t, each), randomness="same")(t.ones(4, 5))
        assert bool((result == result[0]).all())


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout1d"])
def test_dropout_shared(name: str) -> None:
    for t in (torch, ours):
        drop = getattr(t.nn.functional, name)
        result = t.vmap(lambda each, drop=drop: drop(each, training=True), randomness="same")(t.ones(3, 4, 5))
        assert bool((result == result[0]).all())


REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "shared draws of examples": ("same randomness with a batched tensor", lambda t: t.vmap(t.bernoulli, randomness="same")(t.ones(3, 2))),
    "a tensor of all examples": (
        "different inplace randomness on an unbatched tensor",
        lambda t: t.vmap(lambda x, y: y.normal_(), (0, None), randomness="different")(t.ones(3), t.ones(2)),
    ),
    "into another": (
        "calling out variants",
        lambda t: t.vmap(lambda x: t.randn(2, out=t.ones(2)), randomness="same")(t.ones(3)),
    ),
    "products of vectors": ("Shape mismatch", lambda t: t.vmap(t.mm)(t.ones(3, 2), t.ones(3, 2, 2))),
    "positions": ("output dynamic shape", lambda t: t.vmap(t.nonzero)(t.ones(3, 2))),
    "beyond an example": ("not supported inside of vmap", lambda t: t.vmap(lambda x: x.as_strided([3], [1], 1))(t.ones(5, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, call = REFUSED[name]
    for t in (torch, ours):
        with pytest.raises(RuntimeError, match=text):
            call(t)


def test_chunks_share() -> None:
    for t in (torch, ours):
        result = t.vmap(lambda x, t=t: x + t.rand(3), randomness="same", chunk_size=2)(t.zeros(5, 3))
        assert bool((result == result[0]).all())


def test_parts_of_examples() -> None:
    for t in (torch, ours):
        x = t.arange(30.0).reshape(5, 2, 3)
        assert t.vmap(lambda each: each.as_strided([3, 2], [1, 3]))(x).tolist() == x.transpose(1, 2).tolist()


BACKWARD: dict[str, Callable[[Any, Any], Any]] = {
    "products": lambda t, x: (x.sin() * x).exp(),
    "a maximum": lambda t, x: x.max(-1).values * 2,
    "a norm": lambda t, x: (t.nn.functional.layer_norm(x, (3,)) * x).sum(0),
    "a write": lambda t, x: t.zeros(2, 3).index_put((t.tensor([0, 1]), t.tensor([1, 1])), x[:, 0] * x[:, 1]),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_batches_of_cotangents(name: str) -> None:
    found = []
    for t in (torch, ours):
        x = (t.arange(6.0).reshape(2, 3) / 5 + 0.1).requires_grad_()
        result = BACKWARD[name](t, x)
        cotangents = t.arange(1.0, 3 * result.numel() + 1).reshape(3, *result.shape)
        slope = lambda v, t=t, x=x, result=result: t.autograd.grad(result, x, v, retain_graph=True)[0]  # noqa: E731
        found.append((t.vmap(slope)(cotangents), t.stack([slope(each) for each in cotangents])))
    (expected, _), (together, apart) = found
    assert together.tolist() == apart.tolist()
    assert torch.allclose(torch.tensor(together.tolist()), expected, rtol=1e-4, atol=1e-5)


def test_trees_leave_nothing_behind() -> None:
    class Leaf:
        pass

    leaf = Leaf()
    seen = weakref.ref(leaf)
    gc.collect()
    gc.disable()
    try:
        leaves, spec = ours.utils._pytree.tree_flatten({"a": [leaf, (1, 2)]})
        tree = ours.utils._pytree.tree_unflatten(leaves, spec)
        del leaves, leaf, tree
        assert seen() is None
    finally:
        gc.enable()


def test_inference_tensors() -> None:
    for t in (torch, ours):
        with t.inference_mode():
            x = t.ones(1, 2, 3, requires_grad=True)
            assert not x.view(-1).requires_grad
            x.resize_(1, 2)
            y = t.ones(2, 3)
        assert not y.view(-1)._is_view()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            y.transpose_(0, 1)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_tangents_are_told() -> None:
    for t in (torch, ours):
        ad = t.autograd.forward_ad
        with ad.dual_level():
            dual = ad.make_dual(t.ones(2), t.zeros(2))
            assert "tangent=" in str(dual)
            assert "tangent=" not in str(ad.unpack_dual(dual).primal)
        assert "tangent=" not in str(t.ones(2))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_what_a_forward_rule_finds() -> None:
    for t in (torch, ours):

        class Kept(t.autograd.Function):  # type: ignore[name-defined,misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x.clone()

            @staticmethod
            def jvp(ctx: Any, tangent: Any) -> Any:
                assert len(ctx.saved_tensors) == 0
                return tangent

        ad = t.autograd.forward_ad
        with ad.dual_level():
            result = Kept.apply(ad.make_dual(t.ones(2), t.ones(2)))
            assert ad.unpack_dual(result).tangent.tolist() == [1.0, 1.0]


def test_kinds_of_nodes() -> None:
    for t in (torch, ours):
        kind = t.autograd.graph.Node
        node = t.ones(2, requires_grad=True).exp().grad_fn
        assert isinstance(node, kind)
        assert issubclass(type(node), kind)
        assert kind not in type(node).mro()
        assert not isinstance(None, kind)


def test_products_of_two_zeros_are_differentiated_once() -> None:
    for t in (torch, ours):
        start, index = t.tensor([1.0], dtype=t.float64, requires_grad=True), t.tensor([0, 0])
        factors = t.tensor([0.0, 0.0], dtype=t.float64, requires_grad=True)
        result = t.scatter_reduce(start, 0, index, factors, "prod")
        assert t.autograd.grad(result.sum(), factors, retain_graph=True)[0].tolist() == [0.0, 0.0]
        with pytest.raises(RuntimeError, match="Double backward is unsupported for"):
            t.autograd.grad(result.sum(), factors, create_graph=True)[0].sum().backward()


def test_older_functions_know_their_nodes() -> None:
    for t in (torch, ours):

        class InPlace(t.autograd.function.InplaceFunction):  # type: ignore[name-defined,misc]
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                ctx.mark_dirty(a)
                return a.add_(b)

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                return gradient, gradient

        x, y = t.ones(2), t.ones(2, requires_grad=True)
        result = InPlace.apply(x, y)
        assert result.grad_fn.__class__ is InPlace._backward_cls
        assert issubclass(InPlace._backward_cls, t.autograd.function.BackwardCFunction)


def test_events_inside_of_others() -> None:
    for name in ("torch", "webgpu_torch"):
        util = importlib.import_module(f"{name}.autograd.profiler_util")
        ranges = [(1, 0, 1), (1, 1, 2), (0, 0, 2), (0, 1, 2), (0, 1, 3)]
        events = util.EventList(
            util.FunctionEvent(id=number, node_id=0, name="", thread=thread, start_us=start, end_us=end)
            for number, (thread, start, end) in enumerate(ranges, 1)
        )
        events._populate_cpu_children()
        assert [[each.id for each in event.cpu_children] for event in events] == [[], [], [], [], [4]]
        assert util._format_time(1500.0) == "1.500ms"


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("name", ["shared", "shared one", "both", "own", "drawn"])
def test_numbers_drawn_in_place_by_batched_chances(name: str, seeded: bool, randomness: str) -> None:
    def told(library: Any) -> Any:
        generator = library.Generator(device="cpu") if seeded else None
        functions: dict[str, Callable[[Any, Any], Any]] = {
            "shared": lambda x, p: library.zeros(3).bernoulli_(p, generator=generator),
            "shared one": lambda x, p: library.zeros(()).bernoulli_(p, generator=generator),
            "both": lambda x, p: x.bernoulli_(p, generator=generator),
            "own": lambda x, p: x.bernoulli_(library.tensor(0.5), generator=generator),
            "drawn": lambda x, p: library.zeros(2).normal_(generator=generator) + x[0],
        }
        try:
            function = library.func.vmap(functions[name], randomness=randomness)
            return tuple(function(library.zeros(2, 3), library.full((2,), 0.5)).shape)
        except RuntimeError as error:
            return str(error)

    assert told(ours) == told(torch)
