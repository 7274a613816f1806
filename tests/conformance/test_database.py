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
from report import ERROR_TARGETS, FALLBACK_TARGET, TARGETS, Counts, share, top_operations
from webgpu_torch import webgpu

HERE = Path(__file__).parent
DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]


def database_results(device: str, dtype: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run the database in processes of its own and return the outcomes."""
    target = folder / f"{device}-{dtype}.json"
    command = [sys.executable, str(HERE / "run.py"), "--device", device, "--dtype", dtype, "--json", str(target), *more]
    jobs = str(min(os.cpu_count() or 1, 8))
    subprocess.run([*command, "--jobs", jobs], check=False)
    return json.loads(target.read_text())


@pytest.mark.slow
@pytest.mark.timeout(14400)
@pytest.mark.parametrize(("device", "dtype"), sorted(TARGETS))
def test_share_that_passes(device: str, dtype: str, tmp_path: Path) -> None:
    if device not in DEVICES:
        pytest.skip(f"no {device} device")
    errors = ("--errors",) if (device, dtype) == ("cpu", "float32") else ()
    counts = Counts(database_results(device, dtype, tmp_path, *errors))
    forward, gradient = TARGETS[device, dtype]
    assert share(counts.forward) >= forward
    assert share(counts.gradient) >= gradient
    if device != "cpu":
        assert share(counts.fallback) <= FALLBACK_TARGET
    if counts.errors:
        total, raised, alike = counts.errors
        assert raised / total >= ERROR_TARGETS[0]
        assert alike / total >= ERROR_TARGETS[1]
    if dtype == "float32":
        failed = {name: each["forward"] or each["gradient"] for name, each in counts.top.items()}
        assert not {name: reason for name, reason in failed.items() if reason}


@pytest.mark.parametrize("name", top_operations())
def test_what_models_call_exists(name: str) -> None:
    path = name.removeprefix("Tensor.")
    found: Any = ours.nn.init if hasattr(ours.nn.init, path) else ours
    for part in path.split("."):
        found = getattr(found, part, None)
    assert found is not None or hasattr(ours.Tensor, path) or hasattr(ours.Tensor, f"{path}_")
