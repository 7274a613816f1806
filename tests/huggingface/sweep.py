"""Runs transformers' architectures under PyTorch and under this library, and prints how many agree.

    python tests/huggingface/sweep.py --device cpu [--names REGEX] [--forms gradient,greedy,beam,static]
        [--json FILE] [--record docs/huggingface-architectures.json.gz]

Each group of architectures is written by a process with the real torch and read by one with this library.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import gzip
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GROUP = 24
DONE = "done.json"
TOLERANCE = 1e-3


def run_group(
    names: list[str], device: str, timeout: float, references: Path | None = None, forms: str = "gradient"
) -> dict[str, dict[str, Any]]:
    """Return each architecture's outcome: errors relative to PyTorch, or why there are none.

    What PyTorch computed is read from, and kept in, the folder ``references`` if one is given; ``forms`` lists what is compared beside outputs.
    """
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
    with contextlib.nullcontext(references) if references else tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        unwritten = [name for name in names if not (folder / name / DONE).exists()]
        if unwritten:
            subprocess.run(
                [sys.executable, str(HERE / "reference.py"), str(folder), *unwritten], env=environment, check=False
            )
        outcomes: dict[str, dict[str, Any]] = {}
        left = []
        for name in names:
            done = folder / name / DONE
            reason = json.loads(done.read_text()) if done.exists() else "the process ended early"
            if reason:
                outcomes[name] = {"not_built": reason}
            else:
                left.append(name)
        while left:
            results = _compare([str(folder), device, forms, *left], environment, timeout)
            outcomes |= results
            rest = [name for name in left if name not in results]
            if rest:
                # The process ended or hung within this one; the others get a new process.
                outcomes[rest[0]] = {"error": f"no result within {timeout:.0f} s"}
            left = rest[1:]
        return outcomes


def _compare(arguments: list[str], environment: Any, timeout: float) -> dict[str, dict[str, Any]]:
    """Return what the comparing process wrote; it is ended when one architecture takes longer than ``timeout``."""
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "results.json"
        command = [sys.executable, str(HERE / "compare.py"), arguments[0], str(target), *arguments[1:]]
        process = subprocess.Popen(command, env=environment)
        count, since = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            results = json.loads(target.read_text()) if target.exists() else {}
            if len(results) > count:
                count, since = len(results), time.monotonic()
            if time.monotonic() - since > timeout:
                process.kill()
                process.wait()
        return json.loads(target.read_text()) if target.exists() else {}


def summary(outcomes: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return how many architectures PyTorch built, how many agree, and how many with gradients."""
    built = [each for each in outcomes.values() if "not_built" not in each]
    return {
        "built": len(built),
        "forward": sum(each.get("forward", 1.0) <= TOLERANCE for each in built),
        "gradient": sum(
            each.get("forward", 1.0) <= TOLERANCE and each.get("gradient", 1.0) <= TOLERANCE for each in built
        ),
        **collections.Counter(
            mode for each in built for mode, outcome in each.get("generation", {}).items() if outcome == "same"
        ),
    }


def run_all(
    names: list[str],
    device: str,
    jobs: int = 1,
    timeout: float = 60.0,
    references: Path | None = None,
    forms: str = "gradient",
    report: Callable[[dict[str, dict[str, Any]]], None] = lambda outcomes: None,
) -> dict[str, dict[str, Any]]:
    """Return the outcomes of many architectures, in groups of a few; ``report`` is told of them as they come."""
    groups = [names[start : start + GROUP] for start in range(0, len(names), GROUP)]
    outcomes: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(lambda group: run_group(group, device, timeout, references, forms), groups):
            outcomes |= result
            report(outcomes)
    return outcomes


def adapter(device: str) -> str:
    """Return the name of the GPU behind a device; nothing for the processor."""
    if device == "cpu":
        return ""
    code = "import webgpu_torch; print(webgpu_torch.webgpu.get_device_name())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def write_record(path: Path, device: str, outcomes: dict[str, dict[str, Any]]) -> None:
    """Put a device's outcomes into the file that the documentation's page is made from."""
    record = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {"devices": {}}
    record["tolerance"] = TOLERANCE
    run = record["devices"].setdefault(device, {"results": {}})
    run |= {each: importlib.metadata.version(each) for each in ("torch", "transformers")}
    run["date"] = datetime.date.today().isoformat()
    run["adapter"] = adapter(device)
    for name, outcome in outcomes.items():
        rounded = {key: float(f"{each:.2g}") if isinstance(each, float) else each for key, each in outcome.items()}
        rounded.pop("seconds", None)
        run["results"][name] = rounded
    path.write_bytes(gzip.compress(json.dumps(record, sort_keys=True, separators=(",", ":")).encode(), mtime=0))


def main() -> int:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--names", default="", help="only the architectures whose name matches this expression")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each architecture")
    parser.add_argument("--references", type=Path, help="folder that keeps what PyTorch computed for the next run")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", type=Path, help="file of recorded results to bring up to date")
    parser.add_argument(
        "--forms",
        default="gradient,greedy,beam,static",
        help="what to compare beside outputs: gradient, and ways to generate tokens",
    )
    options = parser.parse_args()
    from tiny_models import names

    chosen = [name for name in names() if re.search(options.names, name)]

    def report(outcomes: dict[str, dict[str, Any]]) -> None:
        print(summary(outcomes), flush=True)
        if options.json:
            options.json.write_text(json.dumps(outcomes, indent=1))

    outcomes = run_all(chosen, options.device, options.jobs, options.timeout, options.references, options.forms, report)
    if options.record:
        write_record(options.record, options.device, outcomes)
    reasons = collections.Counter(each["error"][:120] for each in outcomes.values() if "error" in each)
    for reason, count in reasons.most_common():
        print(count, reason, [name for name, each in outcomes.items() if each.get("error", "")[:120] == reason][:4])
    for name, each in outcomes.items():
        if each.get("forward", 0) > TOLERANCE:
            print(name, "differs by", each["forward"])
    print(summary(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
