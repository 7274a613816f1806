"""All of PyTorch's database, and what share of it must pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch as ours
from webgpu_torch import webgpu

HERE = Path(__file__).parent
DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]
#: share of the operations that PyTorch samples on the CPU: forward, gradient of the differentiable ones
TARGETS = {
    ("cpu", "float32"): (0.92, 0.90), ("webgpu", "float32"): (0.90, 0.88), ("cpu", "float16"): (0.85, 0.0),
    ("cpu", "bfloat16"): (0.85, 0.0), ("cpu", "int64"): (0.92, 0.0), ("cpu", "bool"): (0.92, 0.0),
}  # fmt: skip


def database_results(device: str, dtype: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run the database in processes of its own and return the outcomes."""
    target = folder / f"{device}-{dtype}.json"
    command = [sys.executable, str(HERE / "run.py"), "--device", device, "--dtype", dtype, "--json", str(target), *more]
    jobs = str(min(os.cpu_count() or 1, 8))
    subprocess.run([*command, "--jobs", jobs], check=False)
    return json.loads(target.read_text())


def share(passed: list[bool]) -> float:
    """Return the part that is true."""
    return sum(passed) / max(len(passed), 1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("device", "dtype"), sorted(TARGETS))
def test_share_that_passes(device: str, dtype: str, tmp_path: Path) -> None:
    if device not in DEVICES:
        pytest.skip(f"no {device} device")
    errors = ("--errors",) if (device, dtype) == ("cpu", "float32") else ()
    results = database_results(device, dtype, tmp_path, *errors)
    forward, gradient = TARGETS[device, dtype]
    assert share([not each["forward"] for each in results.values()]) >= forward
    assert share([not each["gradient"] for each in results.values() if each["differentiable"]]) >= gradient
    if device != "cpu":
        fallbacks = [each["fallback"] for each in results.values() if not each["forward"]]
        assert share(fallbacks) <= 0.10
    if errors:
        counted = [sum(each["errors"][number] for each in results.values()) for number in range(3)]
        assert counted[1] / counted[0] >= 0.85
        assert counted[2] / counted[0] >= 0.75
    _check_top(results)


def top_operations() -> list[str]:
    """Return the names that models call most."""
    lines = (HERE / "top_operations.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def _check_top(results: dict[str, Any]) -> None:
    names = set(top_operations())
    failed = {
        name: each["forward"] or each["gradient"]
        for name, each in results.items()
        if (name in names or name.split(".")[0] in names) and (each["forward"] or each["gradient"])
    }
    assert not failed


@pytest.mark.parametrize("name", top_operations())
def test_what_models_call_exists(name: str) -> None:
    path = name.removeprefix("Tensor.")
    found: Any = ours.nn.init if hasattr(ours.nn.init, path) else ours
    for part in path.split("."):
        found = getattr(found, part, None)
    assert found is not None or hasattr(ours.Tensor, path) or hasattr(ours.Tensor, f"{path}_")
