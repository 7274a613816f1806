"""Runs files of PyTorch's own tests, unchanged, over this library and over PyTorch, and counts what passes in both.

``python tests/pytorch_suite/run.py FOLDER FILE[:N] [FILE[:N] ...] [--seed N] [--patience SECONDS] [--each SECONDS] [--keep FOLDER]`` takes
a folder with PyTorch's ``test`` files, runs each of the named ones with PyTorch, and what PyTorch passes with this library under the
name ``torch``, on the CPU, in processes of their own, and prints per file what both pass. Helpers (``torch.testing._internal``) come
from the PyTorch that is installed; nothing is fetched. ``FILE:60`` runs 60 tests, chosen by their names and the seed; ``--each 20`` ends
a test after 20 s of the processor's time, which it then has failed. ``--keep`` names a folder for the outcomes, where PyTorch's are looked up before they are
found out again; ``--page`` writes the rows of these files in ``docs/pytorch-tests.md``.

``--device webgpu`` runs the tests that PyTorch makes for every device on this library's device ``webgpu``: those of the sample that PyTorch
passes on the CPU and that neither are about 64-bit floating-point numbers, which such a device has not, nor for some devices only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/pytorch-tests.md"

HEAD = """# PyTorch's own tests

Files of PyTorch's tests, unchanged, over this library under the name `torch`, on the CPU: of the tests that PyTorch itself passes,
how many pass here. Of a file with many tests some ran, drawn by their names; what PyTorch fails or skips is not counted, and a test that
takes longer than its limit has failed. Helpers come from PyTorch 2.13, files of tests from PyTorch 2.1 and 2.4.
`tests/pytorch_suite/run.py FOLDER FILE ... --page` wrote the tables.

## On the CPU

| file | on | ran | PyTorch passes | of these pass here | share |
| --- | --- | --- | --- | --- | --- |
"""

#: before the second table
SECOND = """
## On WebGPU

Tests that PyTorch makes for every device, on the device `webgpu` (`--device webgpu`), here on a processor that plays a GPU. What counts is
what PyTorch passes on the CPU. Tests of float64 and complex128 are left out, as PyTorch's lists of types for MPS leave them out: WebGPU has
no such numbers. A test of another type that asks for them in between ends with the device's refusal; how many do is told, and they are
not counted, nor are tests that PyTorch itself skips on devices other than its own.

| file | on | ran | ask for float64 | PyTorch passes the others | of these pass here | share |
| --- | --- | --- | --- | --- | --- | --- |
"""

TAIL = """
What remains, by cause: views that are conjugated or negated later, which here are computed; batches of compressed rows that
become blocks, which PyTorch refuses, in `test_sparse.py`;
quantised tensors and modules; objects of storages whose subclass counts when they go; subclasses that wrap tensors in files; parts of one
storage in PyTorch's oldest files; indices that are themselves being computed, which are looked at with the next result; products and means
by `index_reduce` in float16, which here are rounded once; in `test_autograd.py`
forward mode where primal and tangent share memory with what they were made of, or where it is switched off, names of nodes of gradients of
gradients, operations that PyTorch has for these tests alone, views that are replayed, hooks written in C++, `record_function` by its
operators, and versions of a tensor whose `data` was set; `make_fx`; the texts of tensors inside of `torch.func`; captured tensors that a
transform writes;
tests that take longer than their limit. On WebGPU: uint64; DLPack, which has no way to its memory; tests that index with tensors
of the CPU. Files that were not collected have no row.
"""

#: what is said of a process that used up its time
LATE = "took longer than its patience"
Outcomes = dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Side:
    """One of the two libraries that tests run over: its interpreter, pytest's plugins, and variables of the environment."""

    python: str
    plugins: tuple[str, ...]
    environment: dict[str, str]


#: tests that are made for a device, by class and name; the rest of a name is a type, or nothing
_GENERIC = re.compile(r"(\w+)CPU::(\w+)_cpu((?:_(?!cpu)\w+)?)$")


#: how a device without 64-bit floating-point numbers refuses them
_REFUSED = re.compile(r"device doesn't support (float64|complex128)")


def on_device(name: str, device: str) -> str | None:
    """Return the name on another device of a test that is made for every device; None for others, and for types a device has not."""
    found = _GENERIC.fullmatch(name)
    if found is None or re.search("float64|complex128", found[3]):
        return None
    return f"{found[1]}{device.upper()}::{found[2]}_{device}{found[3]}"


def outcomes(
    folder: Path, target: str, sample: int, given: argparse.Namespace, only: list[str] | None = None
) -> tuple[Outcomes, str]:
    """Return (outcome, error) by test, and why the target was not collected, if it was not; of these tests only: with this library."""
    why, side = "", given.sides[only is not None]
    with tempfile.TemporaryDirectory() as scratch:
        side_name = "pytorch" if only is None else "ours" if given.device == "cpu" else given.device
        name = f"{given.label or Path(target).stem}-{sample}-{given.seed}-{side_name}.jsonl"
        place = Path(given.keep or scratch, name)
        if only is not None or not place.exists():
            place.unlink(missing_ok=True)
            choice = {"SAMPLE": str(sample), "SEED": str(given.seed)} if only is None else _only(only, scratch)
            why = _run(folder, target, side, given, {"OUTCOMES": str(place), **choice})
            while why != LATE and (left := _left(place)):
                why = _run(folder, target, side, given, {"OUTCOMES": str(place), **_only(left, scratch)})
        rows = _rows(place)
    lost = [row["error"] for row in rows if row.get("name", "") is None]
    # Tests that did not get their turn have failed.
    found = {name: ("failed", "did not run") for row in rows for name in row.get("chosen", ())}
    found |= {row["name"]: (row["outcome"], row["error"]) for row in rows if row.get("name")}
    return found, lost[0] if lost else why if not found else ""


def _only(names: list[str], scratch: str) -> dict[str, str]:
    """Return what has these tests run."""
    place = Path(scratch, "only.txt")
    place.write_text("\n".join(names), encoding="utf-8")
    return {"ONLY": str(place)}


def _left(place: Path) -> list[str]:
    """Return the chosen tests that had no turn because the process ended inside of another one; none where that makes no progress."""
    rows = _rows(place)
    ran = {row.get("name") for row in rows}
    choices = [[each for each in row["chosen"] if each not in ran] for row in rows if "chosen" in row]
    return choices[-1] if choices and "chosen" not in rows[-1] else []


def _rows(place: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in place.read_text(encoding="utf-8").splitlines()] if place.exists() else []


def _run(folder: Path, target: str, side: Side, given: argparse.Namespace, asked: dict[str, str]) -> str:
    """Run a file or folder of tests in a process of its own and return the end of what it says."""
    line = [side.python, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    line += [part for each in (*side.plugins, "recorded") for part in ("-p", each)]
    line += ["-q", "--tb=native", "-W", "ignore", f"--timeout={10 * given.each}", *given.options, target]
    path = os.pathsep.join((str(HERE), str(folder), side.environment.get("PYTHONPATH", "")))
    environment = {
        **os.environ, **side.environment, **asked, "PYTHONPATH": path, "TARGET": target, "EACH": str(given.each), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    try:
        done = subprocess.run(
            line, cwd=folder, env=environment, capture_output=True, text=True, timeout=given.patience, check=False
        )
    except subprocess.TimeoutExpired:
        return LATE
    return (done.stdout + done.stderr)[-1500:]


def counted(folder: Path, file: str, sample: int, given: argparse.Namespace) -> dict[str, Any]:
    """Return a file's row: how many tests PyTorch passes, how many of these pass here, and the commonest errors."""
    reference, reference_why = outcomes(folder, file, sample, given)
    passes = [name for name, (outcome, _) in reference.items() if outcome == "passed"]
    if given.device == "cpu":
        found, why = outcomes(folder, file, sample, given, passes)
    else:
        passes = [other for name in passes if (other := on_device(name, given.device)) is not None]
        found, why = outcomes(folder, file, sample, given, passes)
        # What was not made for this device, or is skipped there, PyTorch does not ask of it.
        passes = [name for name in passes if found.get(name, ("skipped", ""))[0] != "skipped"]
    refused = [name for name in passes if given.device != "cpu" and _REFUSED.search(found[name][1])]
    passes = [name for name in passes if name not in refused]
    equal = [name for name in passes if found.get(name, ("", ""))[0] == "passed"]
    errors = Counter(
        (found[name][1].splitlines() or ["no message"])[0][:100] if name in found else "did not run"
        for name in passes
        if name not in equal
    )
    return {
        "file": file, "sample": sample, "reference": len(passes), "ours": len(equal), "why": why or reference_why,
        "errors": errors.most_common(40), "device": given.device, "refused": len(refused), "failed": [name for name in passes if name not in equal],
    }  # fmt: skip


def printed(label: str, row: dict[str, Any]) -> None:
    """Print a row."""
    print(f"{label:34} PyTorch passes {row['reference']}, of these pass here {row['ours']}", flush=True)
    if row["why"]:
        print("    " + row["why"].strip().replace("\n", "\n    ")[-600:], flush=True)
    for error, count in row["errors"][:12]:
        print(f"    {count:4} {error}", flush=True)


def page(rows: list[dict[str, Any]], before: str) -> str:
    """Return the documentation's page; files that did not run now keep their rows of the page before."""
    tables = {"cpu": before.partition(SECOND)[0], "webgpu": before.partition(SECOND)[2]}
    kept = {
        device: {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
        for device, text in tables.items()
    }
    for row in rows:
        share = f"{row['ours'] / row['reference']:.0%}" if row["reference"] else ""
        ran = f"{row['sample']} drawn" if row["sample"] else "all"
        refused = "" if row["device"] == "cpu" else f" {row['refused']} |"
        kept[row["device"]][str(row["file"])] = (
            f"| `{row['file']}` | {date.today().isoformat()} | {ran} |{refused} {row['reference']} | {row['ours']} | {share} |"
        )
    first, second = ("\n".join(each[file] for file in sorted(each)) + "\n" for each in kept.values())
    return HEAD + first + SECOND + second + TAIL


def main() -> None:
    """Run the files and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=int, default=600)
    parser.add_argument("--each", type=int, default=60)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--device", choices=("cpu", "webgpu"), default="cpu")
    given = parser.parse_args()
    given.label, given.options = "", ["--noconftest"]
    asked = {"TESTS": str(given.folder.absolute()), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    ours = ("over_drop_in", "older_names", *(("on_webgpu",) if given.device == "webgpu" else ()))
    given.sides = [
        Side(sys.executable, plugins, {**asked, "PYTORCH_TESTING_DEVICE_ONLY_FOR": device})
        for plugins, device in ((("older_names",), "cpu"), (ours, given.device))
    ]
    rows = []
    for each in given.files:
        file, _, sample = each.partition(":")
        row = counted(given.folder.absolute(), file, int(sample or 0), given)
        rows.append(row)
        printed(file, row)
    if given.page:
        PAGE.write_text(page(rows, PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""), encoding="utf-8")


if __name__ == "__main__":
    main()
