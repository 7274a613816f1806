"""``torch.cond``: the branch that the predicate names, with gradients, and PyTorch's messages."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours

PREDICATES = [True, False, 0, 2.5]


@pytest.mark.parametrize("positive", [True, False])
def test_a_branch_with_its_gradient(positive: bool, device: str) -> None:
    x = ours.tensor([0.5, 1.5] if positive else [-0.5, -1.5], device=device, requires_grad=True)
    y = ours.cond(x.sum() > 0, lambda x: x.cos(), lambda x: x.sin(), (x,))
    y.sum().backward()
    at = torch.tensor(x.tolist())
    torch.testing.assert_close(torch.tensor(y.tolist()), at.cos() if positive else at.sin())
    torch.testing.assert_close(torch.tensor(x.grad.tolist()), -at.sin() if positive else at.cos())


@pytest.mark.parametrize("pred", PREDICATES)
def test_numbers(pred: object) -> None:
    calls = [library.cond(pred, lambda x: x + 1, lambda x: x - 1, (library.ones(2),)) for library in (torch, ours)]
    assert calls[0].tolist() == calls[1].tolist()


@pytest.mark.parametrize("mistake", ["predicate", "several", "branch", "operands"])
def test_mistakes(mistake: str) -> None:
    messages = []
    for library in (torch, ours):
        one, x = library.ones(1), library.ones(2)
        given = {"predicate": ("yes", abs, abs, (x,)), "several": (x, abs, abs, (x,)), "branch": (one, 3, abs, (x,))}
        with pytest.raises(RuntimeError) as raised:
            library.cond(*given.get(mistake, (one, abs, abs, (3,))))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
