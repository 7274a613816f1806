"""Tangents through functions beside PyTorch's forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

#: PyTorch imports its decompositions when its forward mode is first used
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "dual itself": lambda t, x, y: x,
    "arithmetic": lambda t, x, y: x * y - y / (x + 3),
    "functions": lambda t, x, y: x.sin().exp() + y.tanh(),
    "product": lambda t, x, y: (x @ y.mT).softmax(-1),
    "reductions": lambda t, x, y: x.var(0) * y.logsumexp(0),
    "movement": lambda t, x, y: t.cat([x[1:], y.flip(0)], 0).cumsum(1),
    "solve": lambda t, x, y: t.linalg.solve(x @ x.mT + t.eye(3, dtype=x.dtype), y),
    "complex": lambda t, x, y: t.complex(x, y).exp(),
    "network": lambda t, x, y: t.nn.functional.layer_norm(t.nn.functional.gelu(x), (4,)) * y,
    "constant": lambda t, x, y: t.ones(2) * 3,
    "of one": lambda t, x, y: x.pow(3),
}


def tangents(t: Any, name: str, both: bool) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(1)
    numbers = [torch.randn(3, 4, generator=generator, dtype=torch.float64) for _ in range(4)]
    x, y, u, v = (each if t is torch else ours.tensor(each.numpy()) for each in numbers)
    with t.autograd.forward_ad.dual_level():
        dual = t.autograd.forward_ad.make_dual
        return t.autograd.forward_ad.unpack_dual(CASES[name](t, dual(x, u), dual(y, v) if both else y))


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name: str, both: bool) -> None:
    mine, theirs = tangents(ours, name, both), tangents(torch, name, both)
    assert (mine[1] is None) == (theirs[1] is None)
    for one, other in zip(mine, theirs, strict=True):
        if other is not None:
            assert not one.requires_grad
            torch.testing.assert_close(torch.tensor(one.numpy()), other.resolve_conj(), rtol=1e-9, atol=1e-9)


def test_gradients_of_tangents() -> None:
    x = ours.tensor([0.5, 2.0], requires_grad=True)
    with ours.autograd.forward_ad.dual_level():
        _, tangent = ours.autograd.forward_ad.unpack_dual(ours.autograd.forward_ad.make_dual(x, ours.ones(2)) ** 3)
    assert tangent is not None
    tangent.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_refusals() -> None:
    for t in (ours, torch):
        forward = t.autograd.forward_ad
        with pytest.raises(RuntimeError, match="no level exists"):
            forward.make_dual(t.ones(2), t.ones(2))
        with forward.dual_level():
            with pytest.raises(RuntimeError, match="Nested"):
                forward.enter_dual_level()
            with pytest.raises(ValueError, match="floating point or complex"):
                forward.make_dual(t.ones(2, dtype=t.int64), t.ones(2))
            with pytest.raises(RuntimeError):
                forward.make_dual(t.ones(2), t.ones(3))
            assert forward.unpack_dual(t.ones(2)).tangent is None


@given(
    numbers=st.lists(st.integers(-8, 8), min_size=8, max_size=8),
    factor=st.integers(-3, 3),
    materialize=st.booleans(),
    first=st.booleans(),
    second=st.booleans(),
    outer=st.sampled_from(("sin", "square", "sum")),
)
@settings(max_examples=40, deadline=None)
def test_functions_with_a_mode_of_their_own(
    numbers: list[int], factor: int, materialize: bool, first: bool, second: bool, outer: str
) -> None:
    found = []
    for t in (ours, torch):
        missing: list[bool] = []

        class Blend(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any, number: int) -> Any:
                ctx.set_materialize_grads(materialize)  # noqa: B023
                ctx.save_for_forward(a, b)
                ctx.number = number
                return a * b, a + b

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                raise AssertionError("the function's own forward mode is used")

            @staticmethod
            def jvp(ctx: Any, a_t: Any, b_t: Any, _: None) -> Any:
                a, b = ctx.saved_tensors
                missing.append((a_t is None, b_t is None))  # noqa: B023
                a_t = t.zeros_like(a) if a_t is None else a_t  # noqa: B023
                b_t = t.zeros_like(b) if b_t is None else b_t  # noqa: B023
                # On purpose not the derivative: what is written is what is taken.
                return (a_t * b + a * b_t) * ctx.number, a_t - b_t

        a, u, b, v = (t.tensor([float(each) for each in numbers[k : k + 2]], dtype=t.float64) for k in range(0, 8, 2))
        forward = t.autograd.forward_ad
        with forward.dual_level():
            one, other = forward.make_dual(a, u) if first else a, forward.make_dual(b, v) if second else b
            results = Blend.apply(one * 2, other, factor)
            tangents = [forward.unpack_dual(getattr(each, outer)() * one).tangent for each in results]
        found.append(([None if each is None else each.tolist() for each in tangents], missing))
    assert found[0] == found[1]


def test_a_level_ends_with_its_block() -> None:
    for t in (ours, torch):
        forward = t.autograd.forward_ad
        assert forward._current_level == -1
        with pytest.raises(ZeroDivisionError), forward.dual_level():
            assert forward._current_level == 0
            1 / 0  # noqa: B018
        assert forward._current_level == -1


BOTH = pytest.mark.parametrize("t", [torch, ours], ids=["torch", "ours"])


@BOTH
def test_tangents_are_kept_as_they_are_and_no_longer_than_needed(t: Any) -> None:
    forward = t.autograd.forward_ad
    x, given = t.rand(2), t.rand(2)
    with forward.dual_level():
        dual = forward.make_dual(x, given)
        assert forward.unpack_dual(dual).tangent is given
        tangent = t.rand(2, requires_grad=True)
        reference = t._C._WeakTensorRef(tangent)
        other = forward.make_dual(x, tangent)
        del tangent
        assert not reference.expired()
        del other
        assert reference.expired()
    assert forward.unpack_dual(dual).tangent is None


@BOTH
@pytest.mark.parametrize("steps", [("mul",), ("view", "mul"), ("copy",), ("item", "mul")])
def test_tangents_of_what_was_written(t: Any, steps: tuple[str, ...]) -> None:
    forward = t.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(t.ones(3), t.arange(3.0))
        expected = [0.0, 1.0, 2.0]
        for step in steps:
            if step == "mul":
                dual.mul_(2)
                expected = [2 * each for each in expected]
            elif step == "view":
                dual[1:].mul_(3)
                expected = [expected[0], *(3 * each for each in expected[1:])]
            elif step == "item":
                dual[2] = 7
                expected[2] = 0.0
            else:
                dual = t.zeros(3).copy_(dual)
        assert forward.unpack_dual(dual).tangent.tolist() == expected


@BOTH
@pytest.mark.parametrize("returned", ["view", "self", "product"])
def test_tangents_of_outputs_that_are_inputs(t: Any, returned: str) -> None:
    made = {"view": lambda x: x.view_as(x), "self": lambda x: x, "product": lambda x: x * 2}[returned]

    class Both(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y, x

        @staticmethod
        def jvp(ctx: Any, x: Any, y: Any) -> Any:
            return x + y, made(x)

    forward = t.autograd.forward_ad
    x, y, tangent = t.tensor(1.0), t.tensor(1.0), t.tensor(1.0)
    with forward.dual_level():
        dual = forward.make_dual(x, tangent)
        if returned == "view":
            assert forward.unpack_dual(Both.apply(dual, y)[1]).tangent._base is tangent
        else:
            with pytest.raises(RuntimeError, match="but the jvp is not returning a view"):
                Both.apply(dual, y)


@BOTH
@pytest.mark.parametrize("in_place", [True, False])
def test_tangents_of_inputs_that_a_function_writes(t: Any, in_place: bool) -> None:
    class Doubled(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent.mul_(2) if in_place else tangent * 2

    forward = t.autograd.forward_ad
    x = t.tensor(1.0).clone()
    with forward.dual_level():
        tangent = t.ones_like(x)
        dual = forward.make_dual(x, tangent)
        if not in_place:
            with pytest.raises(RuntimeError, match="jvp function must modify the corresponding gradient inplace"):
                Doubled.apply(dual)
            return
        result = Doubled.apply(dual)
        assert result is dual
        assert forward.unpack_dual(result).tangent is tangent
        assert forward.unpack_dual(result * 3).tangent.item() == 6


def test_duals_of_duals_are_refused() -> None:
    messages = []
    for library in (torch, ours):
        forward = library.autograd.forward_ad
        with forward.dual_level():
            dual = forward.make_dual(library.ones(2), library.ones(2))
            for primal, tangent in ((dual, library.ones(2)), (library.ones(2), dual)):
                with pytest.raises(RuntimeError) as raised:
                    forward.make_dual(primal, tangent)
                messages.append(str(raised.value))
    assert messages[:2] == messages[2:]


@pytest.mark.parametrize("dual", [True, False])
def test_tangents_of_networks_have_none_themselves(dual: bool) -> None:
    """Weights need gradients, so what is unpacked keeps its graph; asked for a tangent once more, it has none."""
    texts = []
    for library in (torch, ours):
        forward = library.autograd.forward_ad
        weight = library.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)
        x = library.tensor([1.0, 2.0], requires_grad=not dual)
        with forward.dual_level():
            made = forward.make_dual(x, library.tensor([1.0, 0.5]))
            primal, tangent = forward.unpack_dual((weight @ (weight @ made).tanh()) ** 2)
            again = forward.unpack_dual(tangent * 2).tangent, forward.unpack_dual(primal * 2).tangent
            texts.append([repr(primal), [round(each, 4) for each in tangent.tolist()], again])
            assert "tangent" not in repr(tangent)
            (primal.sum() + tangent.sum()).backward()
        texts[-1].append([round(each, 4) for each in weight.grad.flatten().tolist()])
    assert texts[1] == texts[0]
