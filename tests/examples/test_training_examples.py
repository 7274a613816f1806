"""The training examples follow the curves that PyTorch recorded with the same code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NAMES = sorted(path.stem for path in (EXAMPLES / "curves").glob("*.json"))
#: where examples stop whose hundred steps take a software renderer more than a few seconds
FEW = 25
#: the share of new images to be named rightly after the whole training
ACCURACY = {"digits_mlp": 0.95, "digits_cnn": 0.97}


def _devices() -> list[str]:
    wanted = os.environ.get("WEBGPU_TORCH_TEST_DEVICES", "cpu,webgpu").split(",")
    from webgpu_torch_core.backend.plugins import registry

    registry.load()
    return [name for name in wanted if name in registry.backends and registry.backends[name].device_count() > 0]


DEVICES = _devices()


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import recorded_curves

    return recorded_curves


def test_there_are_examples() -> None:
    assert {"digits_mlp", "digits_cnn", "train_gpt"} <= set(NAMES)


@pytest.mark.slow_on("char_lstm", "train_gpt-webgpu", "digits_cnn-webgpu")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_pytorchs(curves: Any, name: str, device: str) -> None:
    steps = curves.COMPARED_STEPS if name == "digits_mlp" else FEW
    ours, theirs = curves.run(curves.load(name).train, device, steps), curves.recorded(name)
    assert len(ours.losses) == steps
    assert theirs.losses[0] > 1.2 * theirs.losses[steps - 1], "nothing was learned, so nothing was compared"
    assert ours.largest_difference(theirs) <= 1e-4


@pytest.mark.slow_on("digits_cnn")
@pytest.mark.parametrize("name", ACCURACY)
def test_digits_are_named_rightly(curves: Any, name: str) -> None:
    """Training to the end follows PyTorch's losses, and new images are named as rightly."""
    ours, theirs = curves.run(curves.load(name).train, DEVICES[0], None), curves.recorded(name)
    assert len(ours.losses) == len(theirs.losses)
    assert ours.largest_difference(theirs) <= 1e-4
    assert ours.results["test accuracy"] >= ACCURACY[name]


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits_mlp"])
def test_a_hundred_losses_are_pytorchs(curves: Any, name: str, device: str) -> None:
    ours = curves.run(curves.load(name).train, device, curves.COMPARED_STEPS)
    assert ours.largest_difference(curves.recorded(name)) <= 1e-4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_of_this_code(curves: Any, name: str) -> None:
    """If this fails, the example has changed: record it again, see ``examples/recorded_curves.py``."""
    before = sys.modules["webgpu_torch"] = __import__("webgpu_torch")
    with curves.pytorch_instead():
        again = curves.run(curves.load(name).train, "cpu", 5)
        assert sys.modules["webgpu_torch"].__name__ == "torch"
    assert sys.modules["webgpu_torch"] is before
    assert again.largest_difference(curves.recorded(name)) <= 1e-5


def test_the_command_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "digits_mlp.py"), "--device", "cpu", "--steps", "12", "--every", "5"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["1", "5", "10"]
    assert lines[-1].startswith("largest difference in the first 12 steps: ") and lines[-1].endswith("(agrees)")


def test_another_curve_is_told_apart(curves: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def falling(device: str) -> Any:
        yield from (1.0, 0.5, 0.25)
        return {"score": 1.0}

    for last, agrees in ((0.25005, True), (0.2502, False), (float("nan"), False)):
        monkeypatch.setattr(curves, "recorded", lambda name: curves.Curve([1.0, 0.5, last], {"score": 1.0}))
        assert curves.compare("falling", falling, "cpu", None, 1) is agrees
        assert ("DIFFERS" in capsys.readouterr().out) is not agrees
