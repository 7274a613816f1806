"""What programs ask of gradients in passing: checks of functions that look at them, pieces written in place, texts, older names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
BOTH: tuple[Any, Any] = (webgpu_torch, torch)


@pytest.mark.parametrize("t", BOTH, ids=["ours", "pytorch"])
@pytest.mark.parametrize("what", ["shape", "dtype"])
def test_outputs_keep_shape_and_type_when_inputs_are_moved(t: Any, what: str) -> None:
    def function(x: Any) -> Any:
        if bool((x >= 1).all()):
            return t.cat([x, x]) if what == "shape" else x.to(t.float32)
        return x

    with pytest.raises(AssertionError, match=f"outputs with the same {what} when inputs are perturbed"):
        t.autograd.gradcheck(function, (t.ones(1, dtype=t.float64, requires_grad=True),))


@pytest.mark.parametrize("t", BOTH, ids=["ours", "pytorch"])
def test_functions_that_look_at_gradients_are_checked(t: Any) -> None:
    def function(x: Any) -> Any:
        base = t.ones(5, dtype=t.float64)
        view = base.select(0, 1)
        base.add_(x)
        assert view.requires_grad
        return view * 2

    assert t.autograd.gradcheck(function, (t.ones(1, dtype=t.float64, requires_grad=True),))


@pytest.mark.parametrize("t", BOTH, ids=["ours", "pytorch"])
def test_all_inputs_have_tangents_where_forward_mode_is_checked(t: Any) -> None:
    forward = t.autograd.forward_ad

    def function(x: Any, y: Any) -> Any:
        value = forward.unpack_dual(y) if forward._current_level >= 0 else None
        # PyTorch looks at inputs without a tangent, too.
        moved = value is not None and value.tangent is not None
        return x + (forward.make_dual(value.primal, value.tangent * 1.1) if moved else y)

    inputs = tuple(t.ones(2, dtype=t.float64, requires_grad=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="forward mode mismatch for output 0 with respect to input 1"):
        t.autograd.gradcheck(function, inputs, check_forward_ad=True)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["unsafe_split", "unsafe_chunk"]), st.integers(1, 4), st.integers(0, 1), st.floats(-2, 2))
def test_pieces_are_written_in_place(name: str, count: int, dim: int, factor: float) -> None:
    def found(t: Any) -> Any:
        x = t.arange(12.0).reshape(4, 3).requires_grad_()
        whole = x * 2
        pieces = getattr(t, name)(whole, count, dim)
        pieces[0].mul_(factor)
        sum((each * (number + 1)).sum() for number, each in enumerate(pieces)).backward()
        return [each.tolist() for each in (*pieces, whole, x.grad)]

    for actual, expected in zip(found(webgpu_torch), found(torch), strict=True):
        torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected))


def test_views_that_may_not_be_used_have_a_text() -> None:
    def found(t: Any) -> str:
        x = t.ones(1, requires_grad=True)
        with t.no_grad():
            view = x[:]
            view *= 2
        return repr(view)

    assert found(webgpu_torch) == found(torch) == "tensor([2.], grad_fn=<Invalid>)"


@pytest.mark.parametrize("t", BOTH, ids=["ours", "pytorch"])
def test_an_older_name_of_what_is_saved(t: Any) -> None:
    class Doubled(t.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with pytest.warns(DeprecationWarning, match="saved_variables"):
                (x,) = ctx.saved_variables
            return grad * 2 * x

    x = t.tensor([3.0], requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]
