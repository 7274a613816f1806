"""Options of wrong types for every operation of the database: what PyTorch refuses we refuse with the same type, and nothing else.

python tests/conformance/wrong_options.py --ops '^nn.functional' --verbose
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from database import Missing, entries, our_function, torch
from running import TimeUp, time_limit
from samples import SEED, Sample
from translation import Untranslatable, tensors, to_torch

#: what is given for every option; most of them are wrong for most
WRONG: tuple[Any, ...] = (
    None, True, 1, 1.5, 1j, "nope", [0.5], ["a", "b"], {}, object(), torch.float32, torch.strided, torch.contiguous_format,
    torch.ones(2), torch.tensor(0.5),
)  # fmt: skip
#: calls of an entry that differ in how many arguments they have or in their options' names
CALLS = 4
#: samples of an entry that are looked through for them
SAMPLES = 40
#: elements of the largest operand of a call that is drawn
LARGEST = 4096
#: processor seconds for the calls of one entry
SECONDS = 120
#: why PyTorch refuses what it takes where it has an accelerator, as we do
WITHOUT_ACCELERATOR = ("from the 'CPU' backend", "requires a CUDA or other accelerator")
#: how a device refuses a type of elements that it lacks
LACKING = re.compile(r"Cannot convert a \w+:\d+ Tensor to \w+ dtype as .* doesn't support")
#: where Python code of PyTorch stumbles over a value that nothing looked at, what says so in its place
_STUMBLES = {AttributeError: (TypeError,), UnboundLocalError: (TypeError,)}
#: calls that PyTorch takes by accident, and why no program means them
ACCIDENTS = {
    # Whatever is no dimension counts as all of them, or as the first; types of what is only compared are not looked at.
    r"masked\.\w+\((dim|0|1)=": "dimensions that are no integers",
    r"masked\.median\(dtype=": "a type that is not used",
    # Python's arithmetic makes a complex result of a real network's.
    r"nn\.functional\.local_response_norm\((alpha|beta|k)=1j": "complex factors",
    # Fractions are cut off, and layouts and memory formats are numbers.
    r"__getitem__\(0=\[0\.5\]": "fractions as positions",
    r"slice\(0=": "ends that are no integers",
    r"to\(0=1\)": "the number of a device that is not there",
    r"nn\.functional\.linear_cross_entropy\(ignore_index=": "a class that is no integer, in some of its forms",
    r"broadcast_shapes\(0=None": "shapes that are none",
    r"sparse\.sampled_addmm\(alpha=1j": "a complex factor of a product of nothing",
}
#: options that are looked at elsewhere, or that are no user's: streams, names of dimensions
ELSEWHERE = frozenset(("generator", "names", "out", "self", "input"))


class Outcome:
    """Counts of the calls that PyTorch refuses or takes, and the calls that end otherwise here, by kind.

    ``silent``: PyTorch raises and we do not; ``other``: we raise another type; ``refused``: PyTorch takes it and we do not.
    """

    def __init__(self) -> None:
        self.calls = self.refusals = 0
        self.silent: list[str] = []
        self.other: list[str] = []
        self.refused: list[str] = []

    def add(self, other: Outcome) -> None:
        """Add another outcome's."""
        self.calls += other.calls
        self.refusals += other.refusals
        self.silent += other.silent
        self.other += other.other
        self.refused += other.refused

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, of which PyTorch refuses {self.refusals}: {len(self.silent)} silent here, {len(self.other)} "
            f"raise another type, {len(self.refused)} refused that PyTorch takes"
        )


def _declared(entry: Any) -> set[str]:
    """Return the names of the options that PyTorch's declarations of an operation have."""
    operation = entry.op
    name = getattr(operation, "__name__", "")
    if resolve_theirs(entry.name) is not operation:
        return set()
    with contextlib.suppress(TypeError, ValueError):
        return {
            each.name
            for each in inspect.signature(operation).parameters.values()
            if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is not each.empty
        }
    prefix = entry.name.rpartition(".")[0].replace(".", "_")
    found: set[str] = set()
    for each in {name, entry.name, f"{prefix}_{name}"}:
        with contextlib.suppress(RuntimeError):
            for schema in torch._C._jit_get_schemas_for_operator(f"aten::{each}"):
                found |= {one.name for one in schema.arguments if "Tensor" not in str(one.type) or one.kwarg_only}
    return found


def resolve_theirs(path: str) -> Any:
    """Return what PyTorch has at a dotted name, None where nothing is."""
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _calls(entry: Any, dtype: Any) -> Iterator[Any]:
    """Yield samples that differ in the number of their arguments or the names of their options."""
    seen = set()
    torch.manual_seed(SEED)
    random.seed(SEED)
    for each in islice(entry.sample_inputs_func(entry, "cpu", dtype, False), SAMPLES):
        shape = (len(each.args), *sorted(each.kwargs))
        large = any(one.numel() > LARGEST for one in tensors([each.input, each.args, each.kwargs], torch.Tensor))
        if large or shape in seen:
            continue
        seen.add(shape)
        yield each
        if len(seen) == CALLS:
            return


def _places(entry: Any, samples: list[Any]) -> Iterator[tuple[Any, int | str]]:
    """Yield a sample and the number of an argument after its first one, or the name of an option, each once."""
    seen: set[tuple[int, int] | str] = set()
    for each in samples:
        for number, value in enumerate(each.args):
            if not tensors(value, torch.Tensor) and (len(each.args), number) not in seen:
                seen.add((len(each.args), number))
                yield each, number
        for name, value in each.kwargs.items():
            if name not in seen and name not in ELSEWHERE and not tensors(value, torch.Tensor):
                seen.add(name)
                yield each, name
    for name in sorted(_declared(entry) - seen - ELSEWHERE):
        if not samples[0].args or name not in ("other", "size"):
            yield samples[0], name


def _with(sample: Any, place: int | str, wrong: Any) -> Any:
    """Return a copy of a sample with another value at a place."""
    copy = sample.transform(lambda value: value.clone() if isinstance(value, torch.Tensor) else value)
    if isinstance(place, int):
        copy.args = (*copy.args[:place], wrong, *copy.args[place + 1 :])
    else:
        copy.kwargs = {**copy.kwargs, place: wrong}
    return copy


def _error(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, is compared
        return error
    return None


def _said(error: Exception | None) -> str:
    return "nothing" if error is None else f"{type(error).__name__} ({(str(error).splitlines() or [''])[0][:140]})"


def run_options(entry: Any, device: str, choose: Callable[[list[Any]], list[Any]] = list) -> Outcome:
    """Give an entry's options other values on both sides; ``choose`` picks among (sample, place, value)."""
    outcome = Outcome()
    kinds = entry.supported_dtypes("cpu")
    dtype = torch.float32 if torch.float32 in kinds else min(kinds, key=str, default=torch.float32)
    try:
        function = our_function(entry)
        samples = list(_calls(entry, dtype))
    except Missing:
        return outcome
    cases = [(each, place, wrong) for each, place in _places(entry, samples) for wrong in WRONG] if samples else []
    for each, place, wrong in choose(cases):
        _one(Sample(entry, _with(each, place, wrong), device), function, place, wrong, outcome)
    return outcome


def _one(sample: Sample, function: Any, place: int | str, wrong: Any, outcome: Outcome) -> None:
    try:
        sample.prepare()
    except (Untranslatable, TypeError):
        # Nobody can pass it to us, or the device has no such type of elements.
        return
    refusal = _error(lambda: sample.entry.op(*sample.arguments, **sample.sample.kwargs))
    error = _error(lambda: to_torch(sample.actual(function)))
    if any(each in str(refusal) for each in WITHOUT_ACCELERATOR) or LACKING.search(str(error)):
        return
    outcome.calls += 1
    outcome.refusals += refusal is not None
    line = f"{sample.entry.name}({place}={wrong!r}): {_said(error)} instead of {_said(refusal)} | {sample.describe()}"
    if refusal is None and error is not None:
        if not any(re.match(each, line) for each in ACCIDENTS):
            outcome.refused.append(line)
    elif refusal is not None and error is None:
        outcome.silent.append(line)
    elif refusal is not None and not isinstance(error, (type(refusal), *_STUMBLES.get(type(refusal), ()))):
        outcome.other.append(line)


def run_all(names: list[str], device: str, choose: Callable[[list[Any]], list[Any]] = list) -> Outcome:
    """Run entries one after the other."""
    table, whole = entries(), Outcome()
    for name in names:
        with warnings.catch_warnings(), contextlib.suppress(TimeUp), time_limit(SECONDS):
            warnings.simplefilter("ignore")
            whole.add(run_options(table[name], device, choose))
    return whole


def main() -> int:
    """Run the entries asked for; return 1 where a call ends otherwise than PyTorch's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="our device (default: cpu)")
    parser.add_argument("--ops", default=".", help="regular expression that names must match")
    parser.add_argument("--part", default="0/1", help="which part of the names, of how many (default: 0/1)")
    parser.add_argument("--verbose", action="store_true", help="print the calls that end otherwise")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    whole = Outcome()
    for name in [each for each in entries() if re.search(arguments.ops, each)][part::parts]:
        outcome = run_all([name], arguments.device)
        whole.add(outcome)
        for kind in ("silent", "refused", "other") if arguments.verbose else ():
            for line in getattr(outcome, kind):
                print(f"{kind.upper():8} {line}", flush=True)
    print(whole)
    return int(bool(whole.silent or whole.other or whole.refused))


if __name__ == "__main__":
    sys.exit(main())
