"""Gradients of parts of one tensor: what is sent to it is joined, added, or both, and PyTorch says what comes out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import pytest
import torch as pytorch
import webgpu_torch as ours


def total(values: Iterable[Any]) -> Any:
    return reduce(operator.add, values)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "every place": lambda x: (0 * x[:, 0] + total(x[:, each] * (each + 1) for each in range(6))).sum(),
    "some places": lambda x: total(x[:, each].exp().sum() for each in (1, 2, 4, 5)),
    "runs of them": lambda x: total((x[:, a:b] ** 2).sum() for a, b in ((0, 2), (2, 3), (3, 5), (5, 6))),
    "twice the same": lambda x: total((x[:, each % 6] * each).sum() for each in range(12)),
    "along two dimensions": lambda x: total((x[:, each] * x[each % 3].sum()).sum() for each in range(6)),
    "beside the whole": lambda x: total((x[:, each] * each).sum() for each in range(6)) + (x * x).sum(),
    "in steps": lambda x: total((x[:, each::3] ** 2).sum() for each in range(3)),
    "of a result": lambda x: total((y * k).sum() for k, y in enumerate((x * 2).sin().unbind(1))),
}


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_pytorchs(name: str, device: str) -> None:
    theirs = pytorch.arange(18.0).reshape(3, 6).div_(7).requires_grad_()
    PROGRAMS[name](theirs).backward()
    mine = (ours.arange(18.0, device=device).reshape(3, 6) / 7).requires_grad_()
    PROGRAMS[name](mine).backward()
    assert mine.grad is not None and theirs.grad is not None
    pytorch.testing.assert_close(pytorch.tensor(mine.grad.tolist()), theirs.grad)


def test_gradients_of_gradients() -> None:
    x = (ours.arange(18.0).reshape(3, 6) / 7).requires_grad_()
    (first,) = ours.autograd.grad(total((x[:, each] ** 3).sum() for each in range(6)), x, create_graph=True)
    (second,) = ours.autograd.grad(first.sum(), x)
    assert ours.allclose(second, 6 * x)


def test_hooks_see_whole_gradients_that_they_may_replace() -> None:
    x = (ours.arange(18.0).reshape(3, 6) / 7).requires_grad_()
    seen: list[Any] = []
    parts = [x[:, each] for each in range(6)]
    assert parts[0].grad_fn is not None
    parts[0].grad_fn.register_hook(lambda given, _: (seen.append(given[0].shape), (given[0] * 2,))[1])
    ours.stack(parts).sum().backward()
    assert x.grad is not None and seen == [(3, 6)]
    assert x.grad.tolist() == [[2.0, 1.0, 1.0, 1.0, 1.0, 1.0]] * 3


def test_joined_parts_cost_no_more_than_their_elements() -> None:
    from webgpu_torch_core.record.devices import canonical_device, engine_for

    engine = engine_for(canonical_device("cpu"))
    x = ours.randn(8, 24, 64, requires_grad=True)
    loss = total((x[:, each] * x[:, each]).sum() for each in range(24))
    loss.backward()
    before = set(map(id, engine.plans.values()))
    assert x.grad is not None
    x.grad.tolist()
    plans = [entry[0].plan for entry in engine.plans.values() if id(entry) not in before]
    written = total(each.numel for plan in plans for step in plan.steps for each in step.kernel.outputs)
    # Each part once, and all of them joined in at most two rounds.
    assert written <= 3 * x.numel() + 1024
