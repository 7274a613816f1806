"""Cross entropy, which reads its scores once: values, gradients and their gradients."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours


@pytest.mark.parametrize("shape", [(5, 9), (2, 6, 3)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(shape: tuple[int, ...], reduction: str, device: str) -> None:
    chance = torch.Generator().manual_seed(len(shape))
    scores = torch.randn(shape, generator=chance) * 5.0
    classes = torch.randint(0, shape[1], (shape[0], *shape[2:]), generator=chance)
    classes.view(-1)[1] = -100
    weight = torch.rand(shape[1], generator=chance) + 0.5
    for some in (None, weight):
        found = []
        for library, place in ((torch, "cpu"), (ours, device)):
            x = library.tensor(scores.tolist(), device=place, requires_grad=True)
            y = library.tensor(classes.tolist(), device=place)
            w = None if some is None else library.tensor(some.tolist(), device=place)
            loss = library.nn.functional.cross_entropy(x, y, w, reduction=reduction)
            (grad,) = library.autograd.grad((loss * loss).sum(), x, create_graph=True)
            (second,) = library.autograd.grad((grad * grad).sum(), x)
            found.append([torch.tensor(each.detach().tolist()) for each in (loss, grad, second)])
        for right, mine in zip(*found, strict=True):
            torch.testing.assert_close(mine, right, rtol=2e-5, atol=2e-5)
