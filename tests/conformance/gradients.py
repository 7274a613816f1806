"""Gradients of one call for random cotangents, on both sides."""

from __future__ import annotations

import unittest
from typing import Any

from comparison import nearer, same
from database import ours, rebound, torch
from samples import Sample
from ties import same_gradient_but_for_ties
from translation import Translator, rebuilt, tensors, to_torch

#: the step of differences of float64 results, and how far PyTorch's own gradient is from them where it is one
STEP, LOOSE = 1e-6, (1e-4, 1e-4)


def gradient(sample: Sample, actual: Any, expected: Any, limits: tuple[float, float]) -> tuple[str | None, bool]:
    """Return how the gradients for random cotangents differ, and whether PyTorch's float64 gradient had to decide."""
    process = sample.sample.output_process_fn_grad
    theirs, mine = process(expected), rebound(process)(actual)
    outputs, own = tensors(theirs, torch.Tensor), tensors(mine, ours.Tensor)
    if len(outputs) != len(own):
        return f"{len(own)} tensors instead of {len(outputs)}", False
    generator = torch.Generator().manual_seed(7)
    pairs = [
        (one, other, _cotangent(one, generator)) for one, other in zip(outputs, own, strict=True) if one.requires_grad
    ]
    leaves = sample.leaves()
    if not pairs or not leaves:
        return None, False
    lacking = [number for number, (_, other, _) in enumerate(pairs) if not other.requires_grad]
    if lacking:
        return f"output {lacking[0]} does not require a gradient", False
    seeds = [each[2] for each in pairs]
    try:
        wanted = torch.autograd.grad([each[0] for each in pairs], leaves, seeds, allow_unused=True)
    except RuntimeError:  # PyTorch has no gradient of its own: silu in place, for one
        return None, False
    found = ours.autograd.grad(
        [each[1] for each in pairs],
        [sample.translate(each) for each in leaves],
        [Translator(sample.device)(each) for each in seeds],
        allow_unused=True,
    )
    decided = False
    for number, (have, want) in enumerate(zip(found, wanted, strict=True)):
        problem, exactly = _compare(sample, have, want, seeds, number, limits)
        decided = decided or exactly
        if problem:
            return problem, decided
    return None, decided


def _cotangent(output: Any, generator: torch.Generator) -> Any:
    """Return random numbers of a result's shape, type and layout, a sparse one's at its places."""

    def drawn(part: Any) -> Any:
        return (
            torch.randn(part.shape, generator=generator, dtype=part.dtype)
            if part.is_floating_point() or part.is_complex()
            else part
        )

    return drawn(output) if output.layout is torch.strided else rebuilt(output.detach(), drawn, torch, output.dtype)


def _compare(
    sample: Sample, have: Any, want: Any, seeds: list[Any], number: int, limits: tuple[float, float]
) -> tuple[str | None, bool]:
    have = None if have is None else to_torch(have)
    where = f"gradient {number}"
    if want is None or have is None:
        other = have if want is None else want
        if other is not None and bool((other != 0).any()):
            return (
                f"{where}: {'none' if have is None else 'one'} where PyTorch has {'none' if want is None else 'one'}",
                False,
            )
        return None, False
    problem = same(have, want, *limits, where)
    if problem and number == 0 and same_gradient_but_for_ties(sample, have, want, *limits):
        return None, False
    exact = _exact_gradient(sample, seeds, number) if problem else None
    if exact is None:
        return problem, False
    if _fails_own_check(sample.entry):
        differences = _differences(sample, seeds, number)
        if same(exact, differences, *LOOSE):
            problem = same(have, differences.to(have.dtype), *limits, where)
            return problem, problem is None
    problem = same(have, nearer(have, want, exact, *limits), *limits, where)
    return problem, problem is None


def _fails_own_check(entry: Any) -> bool:
    """Return whether PyTorch's database says that PyTorch's gradients are not those that differences of its results give."""
    checks = [
        each
        for each in entry.decorators
        if getattr(each, "cls_name", None) == "TestBwdGradients" and getattr(each, "test_name", None) == "test_fn_grad"
    ]
    return any(unittest.expectedFailure in each.decorators for each in checks if each.device_type in (None, "cpu"))


def _differences(sample: Sample, seeds: list[Any], number: int) -> Any:
    """Return a gradient by central differences of PyTorch's float64 results."""
    leaf = sample.wide().leaves()[number]
    found = torch.zeros_like(leaf)

    def total(place: int, step: complex) -> Any:
        moved = sample.wide()
        with torch.no_grad():
            moved.leaves()[number].view(-1)[place] += step
        outputs = tensors(moved.sample.output_process_fn_grad(moved.expected()), torch.Tensor)
        pairs = zip(seeds, [each for each in outputs if each.requires_grad], strict=True)
        return sum((seed.to(each.dtype).conj() * each.detach()).real.sum() for seed, each in pairs)

    for place in range(leaf.numel()):
        rise = total(place, STEP) - total(place, -STEP)
        if leaf.is_complex():
            rise = rise + 1j * (total(place, STEP * 1j) - total(place, -STEP * 1j))
        found.view(-1)[place] = rise / (2 * STEP)
    return found.detach()


def _exact_gradient(sample: Sample, seeds: list[Any], number: int) -> Any:
    """Return one of PyTorch's gradients in float64, None where it refuses."""
    wide = sample.wide()
    if wide is None:
        return None
    try:
        outputs = [
            each
            for each in tensors(wide.sample.output_process_fn_grad(wide.expected()), torch.Tensor)
            if each.requires_grad
        ]
        cotangents = [seed.to(each.dtype) for seed, each in zip(seeds, outputs, strict=True)]
        return torch.autograd.grad(outputs, wide.leaves(), cotangents, allow_unused=True)[number]
    except Exception:  # noqa: BLE001 - the operation has no float64 or mixes types
        return None
