"""Counting results, judging them by the targets, and keeping them for the compatibility page."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: how many operations pass in the record, with their results and with gradients too, by device and element type; a record of
#: fewer is refused, one of more raises these numbers
STANDING = {
    ("cpu", "bfloat16"): (537, 443),
    ("cpu", "bool"): (340, 0),
    ("cpu", "complex64"): (383, 318),
    ("cpu", "float16"): (530, 435),
    ("cpu", "float32"): (662, 531),
    ("cpu", "int64"): (459, 0),
    ("webgpu", "float32"): (655, 522),
    ("webgpu", "int64"): (452, 0),
}


def top_operations() -> list[str]:
    """Return the names that models call most."""
    lines = (HERE / "top_operations.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def counted(results: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that PyTorch has samples for on this machine."""
    return {name: each for name, each in results.items() if each["samples"]}


def share(passed: list[bool]) -> float:
    """Return the part that is true."""
    return sum(passed) / max(len(passed), 1)


class Counts:
    """Which entries pass: ``forward``, ``gradient`` (of the differentiable ones), ``variants``, ``fallback`` (of the passing)."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.results = results = counted(results)
        self.forward = [not each["forward"] for each in results.values()]
        self.gradient = [not each["gradient"] for each in results.values() if each["differentiable"]]
        self.variants: dict[str, list[bool]] = {}
        for each in results.values():
            for form, reason in each["variants"].items():
                self.variants.setdefault(form, []).append(not reason)
        self.fallback = [bool(each["fallback"]) for each in results.values() if not each["forward"]]
        self.exact = [bool(each["exact"]) for each in results.values() if not (each["forward"] or each["gradient"])]
        errors = [each["errors"] for each in results.values() if "errors" in each]
        self.errors = [sum(each[number] for each in errors) for number in range(3)] if errors else None
        top = set(top_operations())
        self.top = {name: each for name, each in results.items() if each["operation"] in top}
        self.whole = [
            not (each["forward"] or each["gradient"] or any(each["variants"].values())) for each in results.values()
        ]

    def samples(self) -> tuple[int, int, int]:
        """Return the numbers of PyTorch's samples, of those made non-contiguous, and of gradients compared."""
        return tuple(sum(each[key] for each in self.results.values()) for key in ("samples", "more", "gradients"))  # type: ignore[return-value]


def of(passed: list[bool]) -> str:
    """Return ``passed/all (share)``."""
    return f"{sum(passed)}/{len(passed)} ({100 * share(passed):.1f}%)"


def summary(results: dict[str, Any], device: str, dtype: str) -> str:
    """Return the counts and the targets as text."""
    counts = Counts(results)
    samples, more, gradients = counts.samples()
    lines = [
        f"{device} {dtype}: forward {of(counts.forward)}, gradient {of(counts.gradient)}",
        f"  samples: {samples} and {more} non-contiguous, {gradients} gradients",
    ]
    if counts.variants:
        forms = ", ".join(f"{form.replace('_', '-')} {of(passed)}" for form, passed in sorted(counts.variants.items()))
        lines += [f"  variants: {forms}", f"  forward, gradient and every variant: {of(counts.whole)}"]
    lines.append(f"  PyTorch's float64 result decided for {sum(counts.exact)} of the passing operations")
    if device != "cpu":
        lines.append(f"  by the CPU fallback: {of(counts.fallback)} of the passing")
    if counts.top:
        good = [not (each["forward"] or each["gradient"]) for each in counts.top.values()]
        lines.append(f"  operations that models call most: {of(good)}")
    if counts.errors and counts.errors[0]:
        total, raised, alike = counts.errors
        lines.append(
            f"  error inputs: {total}, {100 * raised / total:.1f}% raise, {100 * alike / total:.1f}% with the same type"
        )
    return "\n".join(lines)


def short(reason: str) -> str:
    """Return a reason in one line of a table."""
    return " ".join(reason.split())[:140]


def entry(each: dict[str, Any]) -> Any:
    """Return one result as it is recorded: "gradient" (passes with it), "forward" (nothing to differentiate), or what is amiss."""
    details: dict[str, Any] = {}
    if each["forward"]:
        details["forward"] = short(each["forward"])
    elif each["gradient"]:
        details["gradient"] = short(each["gradient"])
    variants = {form: short(reason) for form, reason in each["variants"].items() if reason}
    if variants:
        details["variants"] = variants
    if each["fallback"]:
        details["fallback"] = each["fallback"]
    passes = "gradient" if each["differentiable"] else "forward"
    return {**details, "differentiable": each["differentiable"]} if details else passes


def read_record(path: Path) -> dict[str, Any]:
    """Return what was recorded; nothing where there is no file."""
    empty: dict[str, Any] = {"operations": [], "results": {}, "counts": {}}
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else empty


def _amiss(recorded: Any) -> set[str]:
    """Return the forms of an entry that do not pass, and what the CPU computes for another device."""
    if isinstance(recorded, str):
        return set()
    forms = {form for form in ("forward", "gradient") if form in recorded} | set(recorded.get("variants", ()))
    return forms | {f"{name} on the CPU" for name in recorded.get("fallback", ())}


def regressions(path: Path, device: str, dtype: str, results: dict[str, Any]) -> dict[str, list[str]]:
    """Return, by name, what passes in the record and does not in these results."""
    table = read_record(path)["results"].get(device, {}).get(dtype, {})
    found: dict[str, list[str]] = {}
    for name, each in counted(results).items():
        before = _amiss(table[name]) if name in table else set()
        worse = set() if "forward" in before else _amiss(entry(each)) - before
        if name in table and worse:
            found[name] = sorted(worse)
    return found


def record(path: Path, device: str, dtype: str, results: dict[str, Any], whole: bool, limit: int | None = None) -> None:
    """Put results into the record that the compatibility page is made of; what was not run stays as it is.

    ``limit``: how many samples of an operation were run at most, of PyTorch's and non-contiguous ones together.
    """
    from webgpu_torch_core.operations import OPERATIONS

    known = read_record(path)
    table = known["results"].setdefault(device, {}).setdefault(dtype, {})
    if whole:
        table.clear()
    for name, each in counted(results).items():
        table[name] = entry(each)
    # What is declared is known without a run.
    known["operations"] = sorted(OPERATIONS)
    if whole:
        counts = Counts(results)
        kept = known["counts"].setdefault(device, {})[dtype] = {"samples": counts.samples(), "errors": counts.errors}
        if limit is not None:
            kept["limit"] = limit
    path.write_bytes(gzip.compress(json.dumps(known, sort_keys=True, separators=(",", ":")).encode(), mtime=0))


def update(path: Path, device: str, dtype: str, results: dict[str, Any], whole: bool, limit: int | None = None) -> bool:
    """Record results unless something that passed does not any more; return whether they were recorded."""
    worse = regressions(path, device, dtype, results)
    for name, forms in sorted(worse.items()):
        print(f"passes in the record and does not now: {name} ({', '.join(forms)})")
    if not worse:
        record(path, device, dtype, results, whole, limit)
    return not worse


def families(results: dict[str, Any]) -> str:
    """Return what does not pass, by PyTorch's namespaces, with reasons."""
    groups: dict[str, list[str]] = {}
    for name, each in sorted(results.items()):
        lines = [f"{form}: {each[form]}" for form in ("forward", "gradient") if each[form]][:1]
        lines += [f"{form}: {reason}" for form, reason in each["variants"].items() if reason]
        lines += [f"error: {reason}" for reason in each.get("errors", ((),))[-1]]
        if lines and each["samples"]:
            text = "\n".join(f"    {' '.join(line.split())[:300]}" for line in lines)
            groups.setdefault(".".join(each["operation"].split(".")[:-1]) or "torch", []).append(f"  {name}\n{text}")
    return "\n".join(f"{family} ({len(each)})\n" + "\n".join(each) for family, each in sorted(groups.items()))


def main() -> None:
    """Say what a results file has, and record it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", type=Path, help="what run.py --json wrote")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--record", type=Path, help="compatibility record to update (docs/compatibility.json.gz)")
    parser.add_argument("--limit", type=int, help="samples per operation that the run was limited to")
    parser.add_argument("--families", action="store_true", help="list what does not pass")
    arguments = parser.parse_args()
    results = json.loads(arguments.results.read_text())
    print(summary(results, arguments.device, arguments.dtype))
    if arguments.families:
        print(families(results))
    if arguments.record:
        update(arguments.record, arguments.device, arguments.dtype, results, len(results) > 100, arguments.limit)


if __name__ == "__main__":
    main()
