"""A dozen small packages that were written for PyTorch compute what they compute over PyTorch; ``sweep.py`` tries all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sweep import HERE, TOLERANCE, difference

#: job files, and what each needs
SMALL = {
    "averages": ("ema_pytorch", "lion_pytorch", "torch_ema"), "accelerate": ("accelerate",), "einops": ("einops",),
    "mambapy": ("mambapy",), "pytorch_metric_learning": ("pytorch_metric_learning",),
    "rotary_embedding_torch": ("rotary_embedding_torch",), "safetensors": ("safetensors",), "torchdiffeq": ("torchdiffeq",),
    "torchinfo": ("torchinfo",), "torchsummary": ("torchsummary",), "torchsde": ("torchsde",), "x_transformers": ("x_transformers",),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("packages")
    here = [name for name, needed in SMALL.items() if all(find_spec(each) for each in needed)]
    found = {}
    for side, options in (("ours", ["--drop-in"]), ("PyTorch", [])):
        place = folder / f"{side}.json"
        line = [sys.executable, str(HERE / "run_jobs.py"), str(place), *here, *options]
        subprocess.run(line, check=True, timeout=600, cwd=folder, env={**os.environ, "PYTHONWARNINGS": "ignore"})
        found[side] = json.loads(place.read_text())
    return found


@pytest.mark.parametrize("name", SMALL)
def test_package(results: dict[str, dict[str, Any]], name: str) -> None:
    if name not in results["PyTorch"]:
        pytest.skip(f"not installed: {', '.join(SMALL[name])}")
    known, found = results["PyTorch"][name], results["ours"][name]
    assert known["import"], known["error"]
    assert found["import"], found["error"]
    assert known["jobs"]
    for job, each in known["jobs"].items():
        assert "result" in each, each["error"]
        assert "result" in found["jobs"][job], found["jobs"][job]["error"]
        assert difference(found["jobs"][job]["result"], each["result"]) <= TOLERANCE, job
