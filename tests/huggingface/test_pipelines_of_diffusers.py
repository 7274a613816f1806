"""Pipelines of diffusers, unmodified, draw PyTorch's pictures from the same seed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_pipelines

HERE = Path(__file__).parent
#: largest difference allowed, in levels of 255
LEVELS = 2.0
QUICK = "sd"
ON_WEBGPU = ("sd", "sd-img2img", "sd-inpaint", "sd-controlnet", "sdxl", "sd3", "flux", "sd+lora")

pytest.importorskip("diffusers")
pytest.importorskip("torch")

RunPython = Callable[..., subprocess.CompletedProcess[str]]


def _compare(run_python: RunPython, folder: Path, device: str, names: list[str]) -> dict[str, Any]:
    """Return each pipeline's outcome."""
    for words in (("write", folder), ("compare", folder, device)):
        ended = run_python(HERE / "pipelines.py", *words, *names)
        assert ended.returncode == 0, ended.stderr[-2000:]
    assert json.loads((folder / "not_built.json").read_text()) == {}
    return json.loads((folder / "results.json").read_text())


def _far(outcomes: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in outcomes.items() if not each.get("levels", 256) <= LEVELS}


@pytest.mark.slow
def test_stable_diffusion(run_python: RunPython, tmp_path: Path) -> None:
    outcomes = _compare(run_python, tmp_path, "cpu", [QUICK])
    assert set(outcomes) == {QUICK} and not _far(outcomes)


@pytest.mark.slow
def test_every_pipeline(run_python: RunPython, tmp_path: Path) -> None:
    names = [name for name in (*tiny_pipelines.PIPELINES, *tiny_pipelines.ADAPTED) if name != QUICK]
    outcomes = _compare(run_python, tmp_path, "cpu", names)
    assert set(outcomes) == set(names) and not _far(outcomes)


@pytest.mark.slow
def test_on_webgpu(run_python: RunPython, tmp_path: Path) -> None:
    outcomes = _compare(run_python, tmp_path, "webgpu", list(ON_WEBGPU))
    assert set(outcomes) == set(ON_WEBGPU) and not _far(outcomes)


def test_far_pictures_are_told() -> None:
    assert set(_far({"near": {"levels": 1.9}, "far": {"levels": 2.1}, "broken": {"error": "x"}})) == {"far", "broken"}
    assert set(_far({"nothing": {"levels": float("nan")}})) == {"nothing"}
