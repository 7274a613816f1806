"""Gradients of the pieces that one function returns together, some or all of them, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st

FUNCTIONS: dict[str, Any] = {
    "unbind": lambda x, dim, _: x.unbind(dim),
    "split": lambda x, dim, size: x.split(size, dim),
    "chunk": lambda x, dim, size: x.chunk(size, dim),
    "sizes": lambda x, dim, size: x.split([0, x.shape[dim] - x.shape[dim] // size, x.shape[dim] // size], dim),
    "of a view": lambda x, dim, size: x.flip(dim).transpose(0, -1).split(size, dim),
}


@given(
    name=st.sampled_from(sorted(FUNCTIONS)), shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), size=st.integers(1, 4),
    twice=st.booleans(), data=st.data(),
)  # fmt: skip
def test_some_pieces(name: str, shape: list[int], size: int, twice: bool, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    numbers = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
    kept = data.draw(st.sets(st.integers(0, 4), min_size=1))
    found = []
    for library in (torch, ours):
        x = library.tensor(numbers.tolist()).reshape(shape).requires_grad_()
        pieces = FUNCTIONS[name](x, dim, size)
        chosen = [each for number, each in enumerate(pieces) if number in kept] or [pieces[0]]
        assert all(each.grad_fn is pieces[0].grad_fn for each in pieces)
        weighted = sum((each**3 * (number + 1)).sum() for number, each in enumerate(chosen))
        (grad,) = library.autograd.grad(weighted, x, create_graph=twice)
        if twice:
            (grad,) = library.autograd.grad(grad.sum(), x)
        found.append((grad.tolist(), [list(each.stride()) for each in pieces], pieces[0].grad_fn.name()[:6]))
    assert found[0] == found[1]


@pytest.mark.parametrize("recording", [True, False])
def test_writes(recording: bool) -> None:
    messages = []
    for library in (torch, ours):
        x = (library.ones(4, 2, requires_grad=recording) * 1).requires_grad_(recording)
        one, *_ = x.unbind()
        if recording:
            with pytest.raises(RuntimeError) as raised:
                one.mul_(2)
            messages.append(str(raised.value))
        else:
            one.mul_(2)
            messages.append(x.tolist())
    assert messages[0] == messages[1]


@given(
    kind=st.sampled_from(("int64", "int32", "int16", "int8", "uint8")), sizes=st.lists(st.integers(1, 4), max_size=3),
    shape=st.lists(st.integers(0, 3), max_size=2), seed=st.integers(0, 99),
)  # fmt: skip
def test_coordinates_of_positions(kind: str, sizes: list[int], shape: list[int], seed: int) -> None:
    """They are int64 whatever the positions are, and lie together in memory."""
    flat = torch.randint(0, torch.Size(sizes).numel(), shape, generator=torch.Generator().manual_seed(seed)).tolist()

    def read(library: Any) -> Any:
        positions = library.tensor(flat, dtype=library.int64).reshape(shape).to(getattr(library, kind))
        found = library.unravel_index(positions, tuple(sizes))
        return [(str(each.dtype)[-5:], each.tolist(), each.stride() if each.numel() else None) for each in found]

    assert read(ours) == read(torch)
