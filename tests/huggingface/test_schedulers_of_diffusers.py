"""Every scheduler of diffusers, unmodified, takes PyTorch's steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TOLERANCE = 1e-4
#: the walks with every option at its default: quick; the others vary one option each
DEFAULTS = "^[^ ]*$"
SOME = "^(EulerDiscrete|DPMSolverMultistep|UniPCMultistep)Scheduler$"
#: what these do cannot be done without float64, or with random numbers of another device; PyTorch's other devices refuse it too
ON_THE_CPU_ONLY = {
    "CMStochasticIterativeScheduler": "float64",
    "DPMSolverSDEScheduler": "float64",
    "DiscreteDDIMScheduler": "device type for generator",
    "EntropyBoundScheduler": "device type for generator",
    "FlowMapEulerDiscreteScheduler": "float64",
    "HeliosDMDScheduler": "float64",
    "VQDiffusionScheduler": "device type for generator",
}

pytest.importorskip("diffusers")
pytest.importorskip("torch")


def _run(*words: str) -> None:
    command = [sys.executable, str(HERE / "scheduler_walks.py"), *words]
    done = subprocess.run(
        command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def _walks(folder: Path, names: str, device: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the outcomes with this library, and the reasons why PyTorch's own walks failed."""
    source, target = folder / "walks.npz", folder / f"{device}.json"
    _run("write", str(source), names)
    _run("compare", str(source), device, str(target), names)
    return json.loads(target.read_text()), json.loads(source.with_suffix(".json").read_text())


def _far(outcomes: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in outcomes.items() if each.get("difference", 1.0) > TOLERANCE}


@pytest.mark.slow
def test_some_schedulers(tmp_path: Path) -> None:
    outcomes, failed = _walks(tmp_path, SOME, "cpu")
    assert len(outcomes) == 3 and not failed
    assert not _far(outcomes)


@pytest.mark.slow
def test_every_scheduler(tmp_path: Path) -> None:
    outcomes, failed = _walks(tmp_path, DEFAULTS, "cpu")
    assert len(outcomes) >= 49 and not failed
    assert not _far(outcomes)


@pytest.mark.slow
def test_every_option(tmp_path: Path) -> None:
    outcomes, _ = _walks(tmp_path, " ", "cpu")
    assert len(outcomes) >= 250
    assert not _far(outcomes)


@pytest.mark.slow
def test_every_scheduler_on_webgpu(tmp_path: Path) -> None:
    outcomes, _ = _walks(tmp_path, DEFAULTS, "webgpu")
    far = _far(outcomes)
    assert sorted(far) == sorted(ON_THE_CPU_ONLY)
    for name, reason in ON_THE_CPU_ONLY.items():
        assert reason in far[name]["error"]
