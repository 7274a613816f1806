"""Inside of ``allow_mutation_on_saved_tensors`` gradients are those of the values that were saved."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

FUNCTIONS: dict[str, Any] = {
    "square": lambda b: b**2,
    "sine": lambda b: b.sin(),
    "own result": lambda b: b.exp(),
    "product": lambda b: b * b.cos(),
}
WRITES: dict[str, Any] = {
    "itself": lambda b: b.sin_(),
    "a part": lambda b: b[1:].mul_(10),
    "a view": lambda b: b.view(-1).add_(1),
    "twice": lambda b: b.mul_(2).add_(3),
    "not at all": lambda b: b,
}


@settings(deadline=None)
@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(sorted(WRITES)),
    st.lists(st.floats(-2, 2, width=16), min_size=2, max_size=4),
)
def test_gradients(function: str, change: str, values: list[float]) -> None:
    given_values = torch.tensor(values, requires_grad=True)
    FUNCTIONS[function](given_values).sum().backward()
    a = ours.tensor(values, requires_grad=True)
    with ours.autograd.graph.allow_mutation_on_saved_tensors() as context:
        b = a.clone()
        out = FUNCTIONS[function](b).sum()
        with ours.no_grad():
            WRITES[change](b)
        out.backward()
        assert len(context.cloned) == 0
    assert a.grad is not None
    assert given_values.grad is not None
    assert a.grad.tolist() == pytest.approx(given_values.grad.tolist(), rel=1e-5, abs=1e-6)


def test_values_are_kept_while_they_are_needed(device: str) -> None:
    a = ours.ones(3, device=device, requires_grad=True)
    with ours.autograd.graph.allow_mutation_on_saved_tensors() as context:
        b = a.clone()
        out = (b**3).sum()
        b.mul_(2)
        again = (b**3).sum()
        assert len(context.cloned) == 1
        b.mul_(2)
        assert len(context.cloned) == 2
        out.backward()
        assert len(context.cloned) == 1
        again.backward()
        assert len(context.cloned) == 0
    assert a.grad is not None
    assert a.grad.tolist() == [3.0 + 24.0] * 3


def test_where_it_is_refused() -> None:
    for library in (torch, ours):
        block = library.autograd.graph.allow_mutation_on_saved_tensors
        with block(), pytest.raises(RuntimeError, match="allow_mutation_on_saved_tensors contexts cannot be nested"):
            with block():
                pass
        a = library.ones(2, requires_grad=True)
        with block():
            out = (a**2).sum()
        with pytest.raises(
            AssertionError, match="Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
        ):
            out.backward()
