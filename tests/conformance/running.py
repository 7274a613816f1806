"""Running one entry of the database on both sides and saying what differs."""

from __future__ import annotations

import contextlib
import signal
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from comparison import nearer, same, tolerances
from database import Missing, our_function, ours, rebound, torch
from gradients import gradient
from samples import Sample, samples_of
from ties import same_but_for_ties
from translation import Untranslatable, tensors, to_torch
from variants import Variants

#: seconds one entry may take per element type
TIME_LIMIT = 240
#: results that are whatever the memory held
UNINITIALISED = (
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_",
)  # fmt: skip


class TimeUp(BaseException):
    """An entry takes too long."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeUp in the main thread after some seconds of the processor's time, however busy the machine is."""

    def ring(*_: Any) -> None:
        raise TimeUp(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Judged:
    """What came of one call's usual form."""

    def __init__(self, problem: str | None, actual: Any, exact: bool = False, random: bool = False) -> None:
        self.problem, self.actual, self.exact, self.random = problem, actual, exact, random


def forward(sample: Sample, function: Any, expected: Any, limits: tuple[float, float]) -> Judged:
    """Run our function and compare."""
    actual = sample.actual(function)
    found = to_torch(actual)
    if sample.entry.name in UNINITIALISED:
        return Judged(_other_shapes(found, expected), actual, random=True)
    problem = same(found, expected, *limits)
    if not problem or same_but_for_ties(sample, found, expected):
        return Judged(None, actual)
    if sample.device != "cpu" and sample.is_random(expected):
        # Random streams are PyTorch's on the CPU; elsewhere they are only as random.
        return Judged(_other_shapes(found, expected), actual, random=True)
    exact = sample.exact()
    if exact is not None and same(found, nearer(found, expected, exact, *limits), *limits) is None:
        return Judged(None, actual, exact=True)
    process = sample.sample.output_process_fn_grad
    with contextlib.suppress(Exception):
        # Eigenvectors and the like are unique up to a sign: the database says what is not.
        wanted = process(expected)
        if wanted is not expected and same(to_torch(rebound(process)(actual)), wanted, *limits) is None:
            return Judged(None, actual)
    return Judged(problem, actual)


def _other_shapes(found: Any, expected: Any) -> str | None:
    shapes = [[(tuple(x.shape), x.dtype) for x in tensors(each, torch.Tensor)] for each in (found, expected)]
    return None if shapes[0] == shapes[1] else f"shape and type {shapes[0]} instead of {shapes[1]}"


def _reason(error: BaseException, verbose: bool) -> str:
    if verbose:
        return traceback.format_exc(limit=-6)
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:240]


def needs_double(error: BaseException, sample: Sample, expected: Any) -> bool:
    """Return whether a device without float64 refuses a sample that asks for it, as PyTorch's devices without float64 do."""
    wide = (torch.float64, torch.complex128)
    given = tensors([sample.arguments, sample.sample.kwargs], torch.Tensor)
    asked = [sample.sample.kwargs.get("dtype"), *sample.arguments]
    concerned = any(each in wide for each in asked if isinstance(each, torch.dtype)) or any(
        each.dtype in wide for each in [*tensors(expected, torch.Tensor), *given]
    )
    return sample.device != "cpu" and isinstance(error, TypeError) and "doesn't support" in str(error) and concerned


class Outcome(dict[str, Any]):
    """What came of one entry for one device and element type: reasons are empty where it passes.

    ``samples`` counts PyTorch's own, ``more`` those made non-contiguous, ``gradients`` the gradients compared; ``exact`` says that PyTorch's
    float64 result had to decide for one of them; ``variants`` has a reason for each other form of the call.
    """


class Run:
    """One entry on one device, with one element type."""

    def __init__(self, entry: Any, device: str, dtype: Any, verbose: bool, variants: bool) -> None:
        self.entry, self.device, self.dtype, self.verbose = entry, device, dtype, verbose
        self.differentiable = bool(entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu"))
        self.limits = tolerances(entry, dtype)
        self.variants = Variants(entry, device, self.limits) if variants else None
        self.outcome = Outcome(
            operation=entry.name, samples=0, more=0, gradients=0, forward="", gradient="", variants={}, exact=False,
            differentiable=self.differentiable,
        )  # fmt: skip

    def run(self, limit: int | None) -> None:
        """Run the samples."""
        outcome = self.outcome
        try:
            function = our_function(self.entry)
        except Missing as error:
            function, outcome["forward"] = None, str(error)
        for number, (each, scattered) in enumerate(samples_of(self.entry, self.dtype, self.differentiable)):
            if limit is not None and number >= limit:
                break
            sample = Sample(self.entry, each, self.device)
            if self.entry.name == "to" and self.device != "cpu":
                sample = sample.narrow()
            untranslatable = None
            try:
                sample.prepare()
            except Untranslatable as error:
                untranslatable = error
            except TypeError as error:
                if needs_double(error, sample, ()):
                    continue
                raise
            try:
                expected = sample.expected()
            except Exception:  # noqa: BLE001 - what PyTorch refuses is no sample
                continue
            outcome["more" if scattered else "samples"] += 1
            if untranslatable is not None:
                outcome["forward"] = outcome["forward"] or f"Untranslatable: {untranslatable} | {sample.describe()}"
            if function is None or untranslatable is not None:
                continue
            self._one(sample, function, expected, scattered)
            if outcome["forward"] and not self.verbose:
                break

    def _one(self, sample: Sample, function: Any, expected: Any, scattered: bool) -> None:
        outcome = self.outcome
        try:
            judged = forward(sample, function, expected, self.limits)
        except (TimeUp, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever goes wrong is the result
            if needs_double(error, sample, expected):
                outcome["more" if scattered else "samples"] -= 1
                return
            judged = Judged(_reason(error, self.verbose), None)
        outcome["exact"] = outcome["exact"] or judged.exact
        if judged.problem:
            outcome["forward"] = outcome["forward"] or f"{judged.problem} | {sample.describe()}"
            return
        if self.differentiable and not judged.random and not outcome["gradient"]:
            self._gradient(sample, judged, expected)
        if self.variants is not None and not scattered:
            self.variants.run(sample, expected, judged.random)

    def _gradient(self, sample: Sample, judged: Judged, expected: Any) -> None:
        exact = False
        try:
            problem, exact = gradient(sample, judged.actual, expected, self.limits)
        except (TimeUp, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001
            problem = _reason(error, self.verbose)
        self.outcome["gradients"] += 1
        self.outcome["exact"] = self.outcome["exact"] or exact
        if problem:
            self.outcome["gradient"] = f"{problem} | {sample.describe()}"


def run_entry(
    entry: Any, device: str, dtype_name: str, limit: int | None = None, verbose: bool = False, seconds: int = TIME_LIMIT,
    variants: bool = True,
) -> Outcome:  # fmt: skip
    """Run an entry's samples, forward, for floating-point types backward, and in its other forms."""
    run = Run(entry, device, getattr(torch, dtype_name), verbose, variants)
    outcome = run.outcome
    fallbacks = getattr(ours, "host_fallbacks", dict)
    before = dict(fallbacks())
    try:
        with time_limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run.run(limit)
    except TimeUp as error:
        outcome["forward"] = outcome["forward"] or str(error)
    if outcome["forward"] and not outcome["gradient"]:
        outcome["gradient"] = "forward: " + outcome["forward"]
    if not run.differentiable:
        outcome["gradient"] = ""
    if run.variants is not None and not outcome["forward"]:
        outcome["variants"] = run.variants.reasons
    outcome["fallback"] = sorted(name for name, count in fallbacks().items() if count > before.get(name, 0))
    return outcome
