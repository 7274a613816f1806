"""Products of groups of rows against PyTorch's, in every arrangement."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours
from webgpu_torch import webgpu

DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]
OFFSETS = [0, 3, 3, 8]


def run(torch_like, device, left, right, offsets, cotangent):
    left, right = (torch_like.tensor(each.tolist(), device=device, requires_grad=True) for each in (left, right))
    offsets = None if offsets is None else torch_like.tensor(offsets, dtype=torch_like.int32, device=device)
    result = torch_like.nn.functional.grouped_mm(left, right, offs=offsets)
    result.backward(torch_like.tensor(cotangent.tolist(), device=device))
    return [each.detach().cpu().numpy() for each in (result, left.grad, right.grad)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("left", "right", "offsets"),
    [
        ((8, 16), (4, 16, 24), OFFSETS),
        ((80, 16), (4, 16, 24), [0, 3, 70, 80]),
        ((4, 16, 24), (24, 8), OFFSETS),
        ((16, 8), (8, 24), OFFSETS),
        ((4, 8, 16), (4, 16, 24), None),
    ],
)
def test_products_of_groups(device: str, left: tuple, right: tuple, offsets: list[int] | None) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(left, dtype=torch.bfloat16).float(), torch.randn(right, dtype=torch.bfloat16).float()
    if left.ndim == right.ndim == 3:
        wanted = torch.bmm(left, right)
    elif left.ndim == right.ndim:
        starts = [0, *offsets[:-1]]
        wanted = torch.stack([left[:, a:b] @ right[a:b] for a, b in zip(starts, offsets, strict=True)])
    else:
        wanted = torch.nn.functional.grouped_mm(left, right, offs=torch.tensor(offsets, dtype=torch.int32))
    cotangent = torch.randn_like(wanted)
    found, *slopes = run(ours, device, left, right, offsets, cotangent)
    torch.testing.assert_close(torch.tensor(found), wanted)
    for each, shape in zip(slopes, (left.shape, right.shape), strict=True):
        assert each.shape == tuple(shape)
    left.requires_grad_()
    right.requires_grad_()
    if offsets is None:
        (torch.bmm(left, right) * cotangent).sum().backward()
        torch.testing.assert_close(torch.tensor(slopes[0]), left.grad)
        torch.testing.assert_close(torch.tensor(slopes[1]), right.grad)
    elif left.ndim == 2 and right.ndim == 3:
        starts = [0, *offsets[:-1]]
        parts = [left[a:b] @ each for a, b, each in zip(starts, offsets, right, strict=True)]
        (torch.cat(parts) * cotangent).sum().backward()
        torch.testing.assert_close(torch.tensor(slopes[0]), left.grad)
        torch.testing.assert_close(torch.tensor(slopes[1]), right.grad)


def test_offsets_missing() -> None:
    with pytest.raises(ValueError, match="offs"):
        ours.nn.functional.grouped_mm(ours.ones(2, 3), ours.ones(2, 3, 4))
