"""Distances between rows: by differences, and by a product of matrices where PyTorch takes one."""

from __future__ import annotations

import pytest
import torch as pytorch
import webgpu_torch as ours


def distances(torch, values, options):
    x, y = (torch.tensor(each.tolist()).requires_grad_() for each in values)
    found = torch.cdist(x, y, **options)
    first = torch.autograd.grad((found * found * found).sum(), (x, y), create_graph=True)
    second = torch.autograd.grad((first[0] * first[0]).sum() + first[1].sum(), (x, y))
    return [each.tolist() for each in (found, *first, *second)]


@pytest.mark.parametrize("mode", ["_if_necessary", "", None])
@pytest.mark.parametrize("shapes", [((30, 4), (7, 4)), ((2, 1, 5, 3), (3, 28, 3))])
def test_values_and_derivatives(shapes, mode):
    generator = pytorch.Generator().manual_seed(3)
    values = [pytorch.randn(shape, generator=generator) for shape in shapes]
    name = "donot_use_mm_for_euclid_dist" if mode is None else f"use_mm_for_euclid_dist{mode}"
    with ours.device("cpu"):
        mine = distances(ours, values, {"compute_mode": name})
    if mode is None:
        # PyTorch differentiates twice only what a product of matrices gave.
        name = "use_mm_for_euclid_dist"
    for one, other in zip(mine, distances(pytorch, values, {"compute_mode": name}), strict=True):
        pytorch.testing.assert_close(pytorch.tensor(one), pytorch.tensor(other), rtol=1e-4, atol=1e-3)


def test_equal_rows_have_gradients_of_zero():
    x = ours.ones(30, 4, device="cpu", requires_grad=True)
    ours.cdist(x, x).sum().backward()
    assert x.grad.abs().max().item() == 0


def test_unknown_mode():
    with pytest.raises(ValueError, match="foo is not a valid value for compute_mode"):
        ours.cdist(ours.ones(2, 2), ours.ones(2, 2), compute_mode="foo")
