"""Runs PyTorch's own samples of operations against this library.

python tests/conformance/run.py --device cpu --ops '^nn.functional.avg_pool' --verbose
python tests/conformance/run.py --device webgpu --dtype float32 --jobs 2 --json build/conformance.json
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def chosen(pattern: str, dtype: str) -> list[str]:
    """Return the names of the entries that match and that PyTorch samples for an element type on the CPU."""
    from database import entries, torch

    kind = getattr(torch, dtype)
    return [
        name for name, each in entries().items() if re.search(pattern, name) and kind in each.supported_dtypes("cpu")
    ]


def work(arguments: argparse.Namespace) -> None:
    """Answer names from standard input with a line of JSON each."""
    from database import entries
    from running import run_entry, run_errors

    warnings.simplefilter("ignore")
    table = entries()
    for line in sys.stdin:
        name = line.strip()
        outcome = run_entry(table[name], arguments.device, arguments.dtype, arguments.limit, arguments.verbose)
        if arguments.errors:
            try:
                outcome["errors"] = run_errors(table[name], arguments.device)
            except Exception as error:  # noqa: BLE001 - PyTorch's generators of bad inputs fail here and there
                outcome["errors"] = [0, 0, 0, str(error)[:100]]
        print(json.dumps(outcome), flush=True)


class Worker(threading.Thread):
    """Feeds names to a process, and starts another where one dies."""

    def __init__(self, names: list[str], results: dict[str, Any], command: list[str], show: Any) -> None:
        super().__init__()
        self.names, self.results, self.command, self.show = names, results, command, show

    def start_process(self) -> subprocess.Popen[str]:
        """Start a process that answers names."""
        return subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> None:
        """Work until no name is left."""
        process = self.start_process()
        while self.names:
            name = self.names.pop(0)
            started = time.perf_counter()
            try:
                process.stdin.write(name + "\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                line = process.stdout.readline()  # type: ignore[union-attr]
                outcome = json.loads(line)
            except (BrokenPipeError, json.JSONDecodeError):
                process.kill()
                outcome = {
                    "samples": 0,
                    "forward": "the process died",
                    "gradient": "the process died",
                    "differentiable": True,
                }
                process = self.start_process()
            outcome["seconds"] = round(time.perf_counter() - started, 2)
            self.results[name] = outcome
            self.show(name, outcome)
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()


def show(name: str, outcome: dict[str, Any]) -> None:
    """Print a line where an entry fails."""
    if outcome["forward"]:
        print(f"FORWARD  {name}: {outcome['forward']}", flush=True)
    elif outcome["gradient"]:
        print(f"GRADIENT {name}: {outcome['gradient']}", flush=True)


def summary(results: dict[str, Any], title: str) -> str:
    """Return the counts as one line."""
    forward = sum(not each["forward"] for each in results.values())
    differentiable = [each for each in results.values() if each["differentiable"]]
    gradient = sum(not each["gradient"] for each in differentiable)
    fallback = sum(bool(each.get("fallback")) and not each["forward"] for each in results.values())
    samples = sum(each["samples"] for each in results.values())
    text = f"{title}: forward {forward}/{len(results)} ({100 * forward / max(len(results), 1):.1f}%)"
    text += f", gradient {gradient}/{len(differentiable)} ({100 * gradient / max(len(differentiable), 1):.1f}%)"
    text += f", {samples} samples, {fallback} of the passing by the CPU fallback"
    errors = [each["errors"] for each in results.values() if "errors" in each]
    if errors:
        total, raised, alike = (sum(each[number] for each in errors) for number in range(3))
        text += f"; errors {total}: {100 * raised / max(total, 1):.1f}% raise, {100 * alike / max(total, 1):.1f}% alike"
    return text


def record(path: Path, device: str, dtype: str, results: dict[str, Any]) -> None:
    """Put results into the record that the compatibility page is made of; what was not run stays as it is.

    An entry is [reason forward, reason gradient (None: not differentiable), by the CPU fallback]; no reason means it passes.
    """
    known = json.loads(path.read_text()) if path.exists() else {}
    table = known.setdefault(device, {}).setdefault(dtype, {})
    for name, each in results.items():
        gradient = each["gradient"][:120] if each["differentiable"] else None
        table[name] = [each["forward"][:120], gradient, bool(each.get("fallback"))]
    path.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")


def main() -> int:
    """Run the entries asked for; return 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="our device (default: cpu)")
    parser.add_argument("--dtype", default="float32", help="element type of the samples (default: float32)")
    parser.add_argument("--ops", default=".", help="regular expression that names must match")
    parser.add_argument("--limit", type=int, help="samples per operation (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    parser.add_argument("--record", type=Path, help="compatibility record to update (docs/compatibility.json)")
    parser.add_argument("--errors", action="store_true", help="run PyTorch's error inputs too")
    parser.add_argument(
        "--verbose", action="store_true", help="tracebacks, and go on after an operation's first failure"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
        return 0
    warnings.simplefilter("ignore")
    names = chosen(arguments.ops, arguments.dtype)
    results: dict[str, Any] = {}
    command = [sys.executable, "-W", "ignore", str(HERE / "run.py"), "--worker", "--device", arguments.device]
    command += ["--dtype", arguments.dtype, *(["--verbose"] if arguments.verbose else [])]
    command += ["--limit", str(arguments.limit)] if arguments.limit else []
    command += ["--errors"] if arguments.errors else []
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    workers = [Worker(names, results, command, show) for _ in range(min(arguments.jobs, len(names)))]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    print(summary(results, f"{arguments.device} {arguments.dtype}"))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=1, sort_keys=True))
    if arguments.record:
        record(arguments.record, arguments.device, arguments.dtype, results)
    return int(any(each["forward"] or each["gradient"] for each in results.values()))


if __name__ == "__main__":
    sys.exit(main())
