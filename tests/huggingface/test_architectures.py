"""Unmodified transformers: outputs, gradients and generated tokens of tiny models of every architecture are PyTorch's."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "docs" / "huggingface-architectures.json.gz"
QUICK = ("lm.mamba",)
FORMS = "gradient,greedy,beam,static"
#: how many tests share the recorded architectures: each takes minutes, and processes of tests take them side by side
PARTS = 35


@pytest.fixture(scope="module")
def sweep() -> ModuleType:
    """Return the runner."""
    specification = importlib.util.spec_from_file_location("huggingface_sweep", HERE / "sweep.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def quick_outcomes(sweep: ModuleType) -> dict[str, dict[str, Any]]:
    """Return the outcomes of a few architectures of different kinds."""
    return sweep.run_group(list(QUICK), "cpu", 120.0, forms=FORMS)


@pytest.mark.parametrize("name", QUICK)
def test_architecture_agrees_with_pytorch(
    name: str, quick_outcomes: dict[str, dict[str, Any]], sweep: ModuleType
) -> None:
    outcome = quick_outcomes[name]
    assert outcome.get("forward", 1.0) <= sweep.TOLERANCE, outcome
    assert outcome.get("gradient", 1.0) <= sweep.TOLERANCE, outcome
    refused = {mode: text for mode, text in outcome.get("generation", {}).items() if text.startswith("PyTorch: ")}
    wrong = {mode: text for mode, text in outcome.get("generation", {}).items() if text != "same"}
    assert wrong == refused
    assert name.startswith("base.") or "greedy" not in refused


@pytest.mark.slow
def test_wrong_weights_are_noticed(sweep: ModuleType, tmp_path: Path) -> None:
    """The comparison itself: another checkpoint under the same outputs must not pass."""
    import numpy as np

    name = "lm.gpt2"
    sweep.run_group([name], "cpu", 120.0, tmp_path, "gradient,greedy")
    with np.load(tmp_path / name / "outputs.npz") as archive:
        changed = {key: value + 0.01 * np.abs(value).max() for key, value in archive.items()}
    np.savez(tmp_path / name / "outputs.npz", **changed)
    with np.load(tmp_path / name / "generation.npz") as archive:
        np.savez(tmp_path / name / "generation.npz", **{key: value + 1 for key, value in archive.items()})
    outcome = sweep.run_group([name], "cpu", 120.0, tmp_path, "gradient,greedy")[name]
    assert outcome["forward"] > sweep.TOLERANCE
    assert outcome["generation"]["greedy"].startswith("differs")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_recorded_architecture_still_agrees(
    sweep: ModuleType, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    recorded = json.loads(gzip.decompress(RECORD.read_bytes()))["devices"]["cpu"]["results"]
    names = sorted(recorded)[part::PARTS]
    outcomes = sweep.run_all(names, "cpu", forms=FORMS)
    assert names and outcomes.keys() == set(names)
    worse = []
    for name in names:
        wanted, found = recorded[name], outcomes[name]
        for form in ("forward", "gradient"):
            if wanted.get(form, 1.0) <= sweep.TOLERANCE < found.get(form, 1.0):
                worse.append((name, form, found))
        for mode, text in wanted.get("generation", {}).items():
            if text == "same" and found.get("generation", {}).get(mode) != "same":
                worse.append((name, mode, found.get("generation")))
    assert not worse
