"""All of PyTorch's database: what passes in the record passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch as ours
from report import STANDING, Counts, read_record, regressions, top_operations
from webgpu_torch import webgpu

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "docs" / "compatibility.json.gz"
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
@pytest.mark.parametrize(("device", "dtype"), sorted(STANDING))
def test_what_passed_passes(device: str, dtype: str, tmp_path: Path) -> None:
    if device not in DEVICES:
        pytest.skip(f"no {device} device")
    errors = ("--errors",) if (device, dtype) == ("cpu", "float32") else ()
    results = database_results(device, dtype, tmp_path, *errors)
    assert not regressions(RECORD, device, dtype, results)
    counts = Counts(results)
    if counts.errors:
        total, raised, alike = read_record(RECORD)["counts"][device][dtype]["errors"]
        assert counts.errors[0] >= total and counts.errors[1] >= raised and counts.errors[2] >= alike
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
