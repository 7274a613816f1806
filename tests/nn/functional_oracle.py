"""Comparing a function of networks with PyTorch's: values, gradients and second gradients."""

from __future__ import annotations

from typing import Any

import torch
import webgpu_torch_core as ours
import webgpu_torch_nn.functional as functional
from nn_oracle import close, to_ours


def tensor(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """Return uniform numbers that need a gradient."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (torch.rand(shape, generator=generator) * (high - low) + low).requires_grad_()


def classes(*shape: int, count: int, seed: int = 0) -> torch.Tensor:
    """Return random integers below ``count``."""
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


def _moved(value: Any, device: str, known: dict[int, Any]) -> Any:
    """Return a value on our side; one tensor given twice stays one."""
    if not isinstance(value, torch.Tensor):
        return value
    if id(value) not in known:
        result = to_ours(value, device)
        known[id(value)] = result.requires_grad_() if value.requires_grad else result
    return known[id(value)]


def _outputs(value: Any) -> list[Any]:
    return [each for each in value if each is not None] if isinstance(value, tuple) else [value]


def _gradients(library: Any, outputs: list[Any], inputs: list[Any], twice: bool) -> list[Any]:
    """Return gradients of a sum that is not linear in the outputs and, where asked, of the squares of those."""
    total = sum((each * (each * 0.3 + 1)).sum() for each in outputs)
    first = library.autograd.grad(total, inputs, create_graph=twice)
    if not twice:
        return list(first)
    second = sum((each * each).sum() for each in first)
    return [*first, *library.autograd.grad(second, inputs, allow_unused=True)]


def check(
    device: str, name: str, *arguments: Any, twice: bool = True, rtol: float = 1e-4, atol: float = 2e-5, **options: Any
) -> None:
    """Check that a function gives PyTorch's results, gradients and (``twice``) second gradients.

    Second gradients are made of the operations of the first ones: one device, the quickest, is enough to check them.
    """
    twice = twice and device == "cpu"
    expected = _outputs(getattr(torch.nn.functional, name)(*arguments, **options))
    known: dict[int, Any] = {}
    mine = [_moved(each, device, known) for each in arguments]
    my_options = {key: _moved(each, device, known) for key, each in options.items()}
    actual = _outputs(getattr(functional, name)(*mine, **my_options))
    assert len(actual) == len(expected)
    for have, want in zip(actual, expected, strict=True):
        close(have, want, rtol, atol)
    inputs = [each for each in (*arguments, *options.values()) if getattr(each, "requires_grad", False)]
    my_inputs = [each for each in (*mine, *my_options.values()) if getattr(each, "requires_grad", False)]
    if not inputs:
        return
    tracked = [index for index, each in enumerate(expected) if each.requires_grad]
    want_all = _gradients(torch, [expected[index] for index in tracked], inputs, twice)
    have_all = _gradients(ours, [actual[index] for index in tracked], my_inputs, twice)
    for have, want in zip(have_all, want_all, strict=True):
        if want is not None:
            close(have, want, rtol * 10, atol * 10)
