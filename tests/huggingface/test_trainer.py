"""Fine-tuning follows PyTorch's losses: transformers' Trainer with and without peft's LoRA, and a plain loop."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("peft")
pytest.importorskip("accelerate")

HERE = Path(__file__).parent
RunPython = Callable[..., subprocess.CompletedProcess[str]]


def _losses(run_python: RunPython, folder: Path, device: str, steps: int, way: str) -> tuple[list[float], list[float]]:
    """Return PyTorch's loss of every step, and ours."""
    for more in (["write"], []):
        where = "cpu" if more else device
        # The tests' adapter is made of software, which Trainer does not prefer to the CPU by itself.
        place = {"ACCELERATE_TORCH_DEVICE": where}
        ended = run_python("-W", "ignore", HERE / "lora_training.py", folder, where, steps, way, *more, **place)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    return (
        json.loads((folder / "losses-torch.json").read_text()),
        json.loads((folder / "losses-ours.json").read_text()),
    )


def _check(theirs: list[float], ours: list[float], steps: int, fall: float) -> None:
    assert len(theirs) == len(ours) == steps
    assert theirs[-1] < theirs[0] - fall, "the reference did not learn, so it shows nothing"
    worst = max(abs(one - other) for one, other in zip(theirs, ours, strict=True))
    assert worst <= 1e-3, (worst, theirs, ours)


@pytest.mark.slow
def test_lora_with_trainer(run_python: RunPython, tmp_path: Path) -> None:
    """Ten steps of Trainer on peft's LoRA."""
    _check(*_losses(run_python, tmp_path, "cpu", 10, "trainer"), 10, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["trainer", "full", "loop"])
@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_fifty_steps(way: str, device: str, run_python: RunPython, tmp_path: Path) -> None:
    """Fifty steps: Trainer on LoRA, Trainer on all parameters, and a loop with clipping and a schedule."""
    _check(*_losses(run_python, tmp_path, device, 50, way), 50, 0.5)
