"""What custom functions return where no gradients are recorded, and writing into views that they return."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch

#: by name what forward returns
FORWARDS: dict[str, Any] = {
    "view": lambda x: x.view_as(x),
    "input": lambda x: x,
    "halves": lambda x: (x[:1], x[1:]),
    "mixed": lambda x: (x * 2, x[1:]),
}
#: by name what is written into the last output
WRITES: dict[str, Any] = {
    "plain": lambda t, v: v.add_(1),
    "tracked": lambda t, v: v.mul_(t.ones(1, requires_grad=True)),
    "without gradients": lambda t, v: t.no_grad()(v.mul_)(2),
}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("name", FORWARDS)
def test_views_that_functions_return(name: str, how: str, tracked: bool, recorded: bool) -> None:
    def run(t: Any) -> Any:
        class Function(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return FORWARDS[name](x)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return t.cat(grads)

        x = t.ones(2, requires_grad=tracked)
        x = x * 1 if tracked else x
        with t.set_grad_enabled(recorded):
            result = Function.apply(x)
        results = result if isinstance(result, tuple) else (result,)
        found = [(each is x, each.requires_grad, each._base is None) for each in results]
        try:
            WRITES[how](t, results[-1])
        except RuntimeError as error:
            return found, str(error)
        return found, results[-1].requires_grad, results[-1].tolist(), x.tolist()

    assert run(webgpu_torch) == run(torch)
