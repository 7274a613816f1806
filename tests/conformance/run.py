"""Runs PyTorch's own samples of operations against this library.

python tests/conformance/run.py --device cpu --ops '^nn.functional.avg_pool' --verbose
python tests/conformance/run.py --device webgpu --dtype float32 --jobs 2 --json build/conformance.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: kilobytes after which a process makes room for another
MEMORY = 3_000_000
sys.path.insert(0, str(HERE))

import report  # noqa: E402


def chosen(pattern: str, dtype: str, double: bool = False) -> list[str]:
    """Return the names of the entries that match and that PyTorch samples (differentiates twice) for an element type on the CPU."""
    from database import entries, torch

    kind = getattr(torch, dtype)
    if double:
        from double import supports_double

        return [name for name, each in entries().items() if re.search(pattern, name) and supports_double(each, kind)]
    return [
        name for name, each in entries().items() if re.search(pattern, name) and kind in each.supported_dtypes("cpu")
    ]


def work(arguments: argparse.Namespace) -> None:
    """Answer names from standard input with a line of JSON each."""
    from database import entries
    from error_inputs import run_errors

    warnings.simplefilter("ignore")
    table = entries()
    judged = judge(arguments)
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name = line.strip()
        outcome = judged(table[name])
        if arguments.errors:
            try:
                outcome["errors"] = run_errors(table[name], arguments.device)
            except Exception as error:  # noqa: BLE001 - PyTorch's generators of bad inputs fail here and there
                outcome["errors"] = [0, 0, 0, [str(error)[:100]]]
        outcome["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps(outcome), file=answers, flush=True)


def judge(arguments: argparse.Namespace) -> Any:
    """Return the function that runs an entry as the command line asks."""
    common = (arguments.device, arguments.dtype, arguments.limit, arguments.verbose, arguments.seconds)
    if arguments.double:
        from double import run_double

        return lambda entry: run_double(entry, *common)
    from running import run_entry

    return lambda entry: run_entry(entry, *common, not arguments.no_variants)


class Worker(threading.Thread):
    """Feeds names to a process, and starts another where one dies, hangs or has grown large."""

    def __init__(self, names: list[str], results: dict[str, Any], command: list[str], seconds: int) -> None:
        super().__init__()
        self.names, self.results, self.command, self.seconds = names, results, command, seconds

    def start_process(self) -> subprocess.Popen[str]:
        """Start a process that answers names."""
        return subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> None:
        """Work until no name is left."""
        process = self.start_process()
        while True:
            try:
                name = self.names.pop(0)
            except IndexError:
                break
            started = time.perf_counter()
            # The process stops itself after its own time; one that waits forever does not use any.
            alarm = threading.Timer(10 * self.seconds, process.kill)
            alarm.start()
            try:
                process.stdin.write(name + "\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                outcome = json.loads(process.stdout.readline())  # type: ignore[union-attr]
            except (BrokenPipeError, json.JSONDecodeError):
                process.kill()
                outcome = dead(name, close(process))
                process = self.start_process()
            alarm.cancel()
            outcome["seconds"] = round(time.perf_counter() - started, 2)
            if outcome.pop("memory", 0) > MEMORY:
                close(process)
                process = self.start_process()
            self.results[name] = outcome
            show(name, outcome)
        close(process)


def close(process: subprocess.Popen[str]) -> int:
    """Let a process end and return its status."""
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()  # type: ignore[union-attr]
    status = process.wait()
    process.stdout.close()  # type: ignore[union-attr]
    return status


def dead(name: str, status: int) -> dict[str, Any]:
    """Return the outcome of an entry that kills its process."""
    reason = f"the process died with status {status}"
    return {
        "operation": name.split(".")[0], "samples": 1, "more": 0, "gradients": 0, "forward": reason, "gradient": reason,
        "differentiable": True, "variants": {}, "fallback": [], "exact": False,
    }  # fmt: skip


def show(name: str, outcome: dict[str, Any]) -> None:
    """Print a line where an entry fails."""
    if not outcome["samples"]:
        print(f"NONE     {name}: PyTorch has no sample that runs on this machine", flush=True)
    elif outcome["forward"]:
        print(f"FORWARD  {name}: {outcome['forward']}", flush=True)
    elif outcome["gradient"]:
        print(f"GRADIENT {name}: {outcome['gradient']}", flush=True)
    for form, reason in outcome["variants"].items():
        if reason:
            print(f"{form.upper().replace('_', ' '):8} {name}: {reason}", flush=True)
    for each in outcome.get("errors", ((),))[-1]:
        print(f"ERROR    {name}: {each}", flush=True)


def main() -> int:
    """Run the entries asked for; return 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="our device (default: cpu)")
    parser.add_argument("--dtype", default="float32", help="element type of the samples (default: float32)")
    parser.add_argument("--ops", default=".", help="regular expression that names must match")
    parser.add_argument("--limit", type=int, help="samples per operation (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    parser.add_argument("--record", type=Path, help="compatibility record to update (docs/compatibility.json.gz)")
    parser.add_argument("--errors", action="store_true", help="run PyTorch's error inputs too")
    parser.add_argument(
        "--verbose", action="store_true", help="tracebacks, and go on after an operation's first failure"
    )
    parser.add_argument("--no-variants", action="store_true", help="neither methods nor in-place, out= and aliases")
    parser.add_argument("--double", action="store_true", help="second derivatives only; give --dtype float64")
    parser.add_argument("--seconds", type=int, default=240, help="processor time per operation (default: 240)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
        return 0
    warnings.simplefilter("ignore")
    names = chosen(arguments.ops, arguments.dtype, arguments.double)
    results: dict[str, Any] = {}
    command = [sys.executable, "-W", "ignore", str(HERE / "run.py"), "--worker", "--device", arguments.device]
    command += ["--dtype", arguments.dtype, *(["--verbose"] if arguments.verbose else [])]
    command += ["--limit", str(arguments.limit)] if arguments.limit else []
    command += ["--errors"] if arguments.errors else []
    command += ["--no-variants"] if arguments.no_variants else []
    command += ["--double"] if arguments.double else []
    command += ["--seconds", str(arguments.seconds)]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    workers = [Worker(names, results, command, arguments.seconds) for _ in range(min(arguments.jobs, len(names)))]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    print(report.summary(results, arguments.device, arguments.dtype))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=1, sort_keys=True))
    if arguments.record:
        whole = arguments.ops == "." and arguments.limit is None
        report.update(arguments.record, arguments.device, arguments.dtype, results, whole)
    return int(not all(report.Counts(results).whole))


if __name__ == "__main__":
    sys.exit(main())
