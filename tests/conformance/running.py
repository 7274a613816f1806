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
from translation import Translator, Untranslatable, tensors, to_torch

SEED = 20260101
#: seconds one entry may take per element type
TIME_LIMIT = 120
#: results that are whatever the memory held
UNINITIALISED = (
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_",
)  # fmt: skip


class TimeUp(Exception):
    """An entry takes too long."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeUp in the main thread after some seconds."""

    def ring(*_: Any) -> None:
        raise TimeUp(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Sample:
    """One call: a function of ours and of PyTorch's with the same arguments."""

    def __init__(self, entry: Any, sample: Any, device: str) -> None:
        self.entry, self.sample, self.device = entry, sample, device
        self.arguments = (sample.input, *sample.args)
        self.translate = Translator(device)

    def expected(self, seed: int = SEED) -> Any:
        """Return PyTorch's result."""
        torch.manual_seed(seed)
        return self.entry.op(*self.arguments, **self.sample.kwargs)

    def actual(self, function: Any, **more: Any) -> Any:
        """Return ours."""
        arguments = self.translate(self.arguments)
        keywords = self.translate(self.sample.kwargs)
        ours.manual_seed(SEED)
        return function(*arguments, **keywords, **more)

    def wide(self) -> Sample | None:
        """Return the same call in float64, for judging rounding."""
        if not any(each.dtype is torch.float32 for each in tensors([self.arguments, self.sample.kwargs], torch.Tensor)):
            return None

        def widened(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
                return value.detach().double().requires_grad_(value.requires_grad)
            return value

        return Sample(self.entry, self.sample.transform(widened), self.device)

    def exact(self) -> Any:
        """Return PyTorch's result in float64, None where it refuses."""
        wide = self.wide()
        try:
            return None if wide is None else wide.expected()
        except Exception:  # noqa: BLE001 - the operation has no float64 or mixes types
            return None

    def leaves(self) -> list[Any]:
        """Return PyTorch's inputs that want a gradient."""
        return [each for each in tensors([self.arguments, self.sample.kwargs], torch.Tensor) if each.requires_grad]

    def describe(self) -> str:
        """Return the arguments briefly."""

        def brief(value: Any) -> str:
            if isinstance(value, torch.Tensor):
                stride = "" if value.is_contiguous() else f" strides {tuple(value.stride())}"
                return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{stride}"
            if isinstance(value, list | tuple):
                return f"({', '.join(map(brief, value))})"
            return repr(value)[:60]

        keywords = ", ".join(f"{name}={brief(each)}" for name, each in self.sample.kwargs.items())
        return f"{', '.join(map(brief, self.arguments))}; {keywords}"[:400]


def is_random(sample: Sample, expected: Any) -> bool:
    """Return whether another seed gives another result."""
    try:
        return same(expected, sample.expected(SEED + 1), 0.0, 0.0) is not None
    except (RuntimeError, TypeError, ValueError):
        return False


def forward(sample: Sample, function: Any, limits: tuple[float, float]) -> tuple[str | None, Any, Any]:
    """Return what differs and both results."""
    expected = sample.expected()
    actual = sample.actual(function)
    found = to_torch(actual)
    entry = sample.entry
    uninitialised = entry.name in UNINITIALISED
    if uninitialised or (sample.device != "cpu" and is_random(sample, expected)):
        shapes = [[(tuple(x.shape), x.dtype) for x in tensors(each, torch.Tensor)] for each in (found, expected)]
        return (
            (None if shapes[0] == shapes[1] else f"shape and type {shapes[0]} instead of {shapes[1]}"),
            actual,
            expected,
        )
    problem = same(found, expected, *limits)
    if problem:
        exact = sample.exact()
        problem = problem if exact is None else same(found, nearer(found, expected, exact, *limits), *limits)
    process = sample.sample.output_process_fn_grad
    if problem and process is not None and getattr(process, "__name__", "") != "<lambda>x":
        # Eigenvectors and the like are unique up to a sign: the database says what is not.
        with contextlib.suppress(Exception):
            if same(to_torch(rebound(process)(actual)), process(expected), *limits) is None:
                problem = None if process(expected) is not expected else problem
    return problem, actual, expected


def gradient(sample: Sample, actual: Any, expected: Any, limits: tuple[float, float]) -> str | None:
    """Return how the gradients for random cotangents differ."""
    process = sample.sample.output_process_fn_grad
    theirs, mine = process(expected), rebound(process)(actual)
    outputs = [each for each in tensors(theirs, torch.Tensor)]
    own = [each for each in tensors(mine, ours.Tensor)]
    if len(outputs) != len(own):
        return f"{len(own)} tensors instead of {len(outputs)}"
    generator = torch.Generator().manual_seed(7)
    pairs = [
        (one, other, torch.randn(one.shape, generator=generator, dtype=one.dtype))
        for one, other in zip(outputs, own, strict=True)
        if one.requires_grad
    ]
    leaves = sample.leaves()
    if not pairs or not leaves:
        return None
    lacking = [number for number, (_, other, _) in enumerate(pairs) if not other.requires_grad]
    if lacking:
        return f"output {lacking[0]} does not require a gradient"
    seeds = [each[2] for each in pairs]
    wanted = torch.autograd.grad([each[0] for each in pairs], leaves, seeds, allow_unused=True)
    translate = sample.translate
    found = ours.autograd.grad(
        [each[1] for each in pairs],
        [translate(each) for each in leaves],
        [Translator(sample.device)(each[2]) for each in pairs],
        allow_unused=True,
    )
    for number, (have, want) in enumerate(zip(found, wanted, strict=True)):
        have = None if have is None else to_torch(have)
        if want is None or have is None:
            other = have if want is None else want
            if other is not None and bool((other != 0).any()):
                return f"gradient {number}: {'none' if have is None else 'one'} where PyTorch has {'one' if want is not None else 'none'}"
            continue
        problem = same(have, want, *limits, f"gradient {number}")
        if problem:
            exact = _exact_gradient(sample, seeds, number)
            problem = (
                problem
                if exact is None
                else same(have, nearer(have, want, exact, *limits), *limits, f"gradient {number}")
            )
        if problem:
            return problem
    return None


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


def _reason(error: BaseException, verbose: bool) -> str:
    if verbose:
        return traceback.format_exc(limit=-6)
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:240]


def samples_of(entry: Any, dtype: Any, requires_grad: bool) -> Iterator[Any]:
    """Yield PyTorch's samples, and each one with non-contiguous tensors."""
    torch.manual_seed(SEED)
    # PyTorch itself does not expect the same results of some operations whose inputs lie elsewhere in memory.
    anywhere = all(getattr(each, "test_name", None) != "test_noncontiguous_samples" for each in entry.decorators)
    for each in entry.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        yield each
        if anywhere:
            with contextlib.suppress(Exception):
                yield each.noncontiguous()


class Outcome(dict[str, Any]):
    """What came of one entry for one device and element type: reasons are empty where it passes."""


def run_entry(
    entry: Any, device: str, dtype_name: str, limit: int | None = None, verbose: bool = False, seconds: int = TIME_LIMIT
) -> Outcome:
    """Run an entry's samples, forward and, for floating-point types, backward."""
    dtype = getattr(torch, dtype_name)
    outcome = Outcome(samples=0, forward="", gradient="", differentiable=False)
    differentiable = entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
    outcome["differentiable"] = differentiable
    fallbacks = getattr(ours, "host_fallbacks", dict)
    before = sum(fallbacks().values())
    try:
        function = our_function(entry)
    except Missing as error:
        outcome["forward"] = outcome["gradient"] = str(error)
        return outcome
    try:
        with time_limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _run_samples(entry, function, device, dtype, differentiable, limit, verbose, outcome)
    except TimeUp as error:
        outcome["forward"] = outcome["forward"] or str(error)
    if outcome["forward"] and not outcome["gradient"]:
        outcome["gradient"] = "forward: " + outcome["forward"]
    if not differentiable:
        outcome["gradient"] = ""
    outcome["fallback"] = sum(fallbacks().values()) > before
    return outcome


def _run_samples(
    entry: Any, function: Any, device: str, dtype: Any, differentiable: bool, limit: int | None, verbose: bool,
    outcome: Outcome,
) -> None:  # fmt: skip
    limits = tolerances(entry, dtype)
    for number, each in enumerate(samples_of(entry, dtype, differentiable)):
        if limit is not None and number >= limit:
            break
        sample = Sample(entry, each, device)
        try:
            sample.expected()
        except Exception:  # noqa: BLE001 - what PyTorch refuses is no sample
            continue
        outcome["samples"] += 1
        actual = expected = None
        try:
            problem, actual, expected = forward(sample, function, limits)
        except (TimeUp, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever goes wrong is the result
            problem = _reason(error, verbose)
        if problem:
            outcome["forward"] = outcome["forward"] or f"{problem} | {sample.describe()}"
            if not verbose:
                break
            continue
        if not differentiable or outcome["gradient"]:
            continue
        try:
            problem = gradient(sample, actual, expected, limits)
        except (TimeUp, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001
            problem = _reason(error, verbose)
        if problem:
            outcome["gradient"] = f"{problem} | {sample.describe()}"


def run_errors(entry: Any, device: str) -> tuple[int, int, int]:
    """Return how many of PyTorch's error inputs there are, how many raise here, and how many with the same type."""
    if entry.error_inputs_func is None:
        return 0, 0, 0
    try:
        function = our_function(entry)
    except Missing:
        function = None
    total = raised = alike = 0
    torch.manual_seed(SEED)
    for each in entry.error_inputs("cpu"):
        sample = Sample(entry, each.sample_input, device)
        try:
            sample.expected()
        except Exception as error:  # noqa: BLE001
            kind = type(error)
        else:
            continue
        total += 1
        try:
            result = None if function is None else sample.actual(function)
            to_torch(result)
        except Untranslatable:
            total -= 1
        except Exception as error:  # noqa: BLE001
            raised += 1
            alike += isinstance(error, kind)
    return total, raised, alike
