"""Second derivatives of one entry: the gradient of the gradient, with respect to inputs and cotangents, on both sides."""

from __future__ import annotations

import warnings
from typing import Any

from comparison import same
from database import Missing, our_function, ours, rebound, torch
from running import TIME_LIMIT, Outcome, TimeUp, _reason, time_limit
from samples import Sample, samples_of
from translation import Translator, Untranslatable, tensors, to_torch

#: what PyTorch's gradcheck allows two float64 derivatives to differ by
LIMITS = (1e-3, 1e-5)
NARROW_LIMITS = {torch.float32: (1e-3, 1e-3)}


def supports_double(entry: Any, dtype: Any) -> bool:
    """Return whether PyTorch differentiates an entry twice."""
    return bool(entry.supports_autograd and entry.supports_gradgrad and dtype in entry.supported_backward_dtypes("cpu"))


def _seed(count: int) -> Any:
    return torch.Generator().manual_seed(count)


def _random_like(value: Any, number: int) -> Any:
    generator = _seed(number)
    real = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    if value.dtype.is_complex:
        real = torch.complex(real, torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return real.to(value.dtype)


def _twice(grad: Any, outputs: list[Any], leaves: list[Any], seeds: list[Any], cotangents: Any) -> Any:
    """Return (first gradients, second gradients); ``cotangents`` makes those of the second pass from the first gradients."""
    first = grad(outputs, leaves, seeds, create_graph=True, allow_unused=True)
    tracked = [(number, each) for number, each in enumerate(first) if each is not None and each.requires_grad]
    if not tracked:
        return first, None
    weights = [cotangents(number, each) for number, each in tracked]
    return first, grad([each for _, each in tracked], [*leaves, *seeds], weights, allow_unused=True)


def second_gradient(sample: Sample, function: Any, limits: tuple[float, float]) -> tuple[str | None, bool]:
    """Return how second derivatives differ, and whether PyTorch has any."""
    process = sample.sample.output_process_fn_grad
    leaves = sample.leaves()
    sample.prepare()
    try:
        expected = [each for each in tensors(process(sample.expected()), torch.Tensor) if each.requires_grad]
        seeds = [_random_like(each, 11 + number).requires_grad_() for number, each in enumerate(expected)]
        if not expected or not leaves:
            return None, False
        _, wanted = _twice(
            torch.autograd.grad, expected, leaves, seeds, lambda number, each: _random_like(each, 77 + number)
        )
    except (RuntimeError, NotImplementedError, ValueError, TypeError):  # PyTorch refuses: no sample
        return None, False
    if wanted is None:
        return None, False
    translate = Translator(sample.device)
    actual = [each for each in tensors(rebound(process)(sample.actual(function)), ours.Tensor) if each.requires_grad]
    if len(actual) != len(expected):
        return f"{len(actual)} outputs with a gradient instead of {len(expected)}", True
    _, found = _twice(
        ours.autograd.grad,
        actual,
        [sample.translate(each) for each in leaves],
        [translate(each) for each in seeds],
        lambda number, each: translate(
            _random_like(torch.empty(each.shape, dtype=getattr(torch, each.dtype.name)), 77 + number)
        ),
    )
    for number, want in enumerate(wanted):
        have = None if found is None or found[number] is None else to_torch(found[number])
        problem = _differs(have, want, f"second gradient {number}", limits)
        if problem:
            return problem, True
    return None, True


def _differs(have: Any, want: Any, where: str, limits: tuple[float, float]) -> str | None:
    if want is None or have is None:
        other = have if want is None else want
        # An absent gradient and one of zeros are the same gradient.
        if other is not None and bool((other.detach() != 0).any()):
            return f"{where}: {'none' if have is None else 'one'} where PyTorch has {'none' if want is None else 'one'}"
        return None
    return same(have, want.detach(), *limits, where)


def run_double(
    entry: Any, device: str, dtype_name: str, limit: int | None = None, verbose: bool = False, seconds: int = TIME_LIMIT
) -> Outcome:
    """Compare the second derivatives of an entry's samples."""
    dtype = getattr(torch, dtype_name)
    outcome = Outcome(
        operation=entry.name, samples=0, more=0, gradients=0, forward="", gradient="", variants={}, exact=False,
        differentiable=True, fallback=[],
    )  # fmt: skip
    try:
        with time_limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _run(entry, device, dtype, limit, verbose, outcome)
    except TimeUp as error:
        outcome["gradient"] = outcome["gradient"] or str(error)
    return outcome


def _run(entry: Any, device: str, dtype: Any, limit: int | None, verbose: bool, outcome: Outcome) -> None:
    limits = NARROW_LIMITS.get(dtype, LIMITS)
    try:
        function = our_function(entry)
    except Missing as error:
        outcome["gradient"] = str(error)
        return
    plain = (each for each, scattered in samples_of(entry, dtype, True) if not scattered)
    for number, each in enumerate(plain):
        if limit is not None and number >= limit:
            break
        sample = Sample(entry, each, device)
        try:
            problem, compared = second_gradient(sample, function, limits)
        except Untranslatable:
            continue
        except (TimeUp, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever goes wrong is the result
            problem, compared = _reason(error, verbose), True
        outcome["samples"] += 1
        outcome["gradients"] += compared
        if problem:
            outcome["gradient"] = f"{problem} | {sample.describe()}"
            return
