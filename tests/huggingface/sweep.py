"""Runs transformers' architectures under PyTorch and under this library, and prints how many agree.

    python tests/huggingface/sweep.py --device cpu [--names REGEX] [--json FILE]

Each group of architectures is written by a process with the real torch and read by one with this library.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GROUP = 24
TOLERANCE = 1e-3


def run_group(names: list[str], device: str, timeout: float) -> dict[str, dict[str, Any]]:
    """Return each architecture's outcome: errors relative to PyTorch, or why there are none."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
        write = [sys.executable, str(HERE / "reference.py"), folder, *names]
        subprocess.run(write, env=environment, check=False)
        listed = Path(folder) / "not_built.json"
        failed = json.loads(listed.read_text()) if listed.exists() else dict.fromkeys(names, "the process ended early")
        outcomes: dict[str, dict[str, Any]] = {name: {"not_built": reason} for name, reason in failed.items()}
        left = [name for name in names if name not in failed]
        while left:
            results = _compare(folder, device, left, environment, timeout)
            outcomes |= results
            rest = [name for name in left if name not in results]
            if rest:
                # The process ended or hung within this one; the others get a new process.
                outcomes[rest[0]] = {"error": f"no result within {timeout:.0f} s"}
            left = rest[1:]
        return outcomes


def _compare(folder: str, device: str, names: list[str], environment: Any, timeout: float) -> dict[str, dict[str, Any]]:
    target = Path(folder) / "results.json"
    target.unlink(missing_ok=True)
    try:
        command = [sys.executable, str(HERE / "compare.py"), folder, device, *names]
        subprocess.run(command, env=environment, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        pass
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
    }


def main() -> int:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--names", default="", help="only the architectures whose name matches this expression")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each group")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from tiny_models import names

    chosen = [name for name in names() if re.search(options.names, name)]
    groups = [chosen[start : start + GROUP] for start in range(0, len(chosen), GROUP)]
    outcomes: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda group: run_group(group, options.device, options.timeout), groups):
            outcomes |= result
            print(summary(outcomes), flush=True)
            if options.json:
                options.json.write_text(json.dumps(outcomes, indent=1))
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
