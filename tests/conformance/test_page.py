"""docs/compatibility.md is what the recorded results and the registry make, and the results are of this registry."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from report import TARGETS, Counts, entry, families, record, share, summary

ROOT = Path(__file__).parents[2]
RESULT: dict[str, Any] = {
    "operation": "add", "samples": 3, "more": 1, "gradients": 4, "forward": "", "gradient": "", "variants": {"out": ""},
    "exact": False, "differentiable": True, "fallback": [],
}  # fmt: skip


def generator() -> Any:
    """Return scripts/generate_compatibility.py as a module."""
    specification = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate_compatibility.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_page_is_what_the_record_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert (ROOT / "docs" / "compatibility.md").read_text() == generator().page()


def test_record_meets_the_targets() -> None:
    results = json.loads((ROOT / "docs" / "compatibility.json").read_text())["results"]
    for device, dtype in sorted(TARGETS):
        if device == "cpu" or dtype in results.get(device, {}):
            table = results[device][dtype].values()
            passing = [isinstance(each, str) or "forward" not in each for each in table]
            differentiable = [
                each for each in table if each == "gradient" or isinstance(each, dict) and each["differentiable"]
            ]
            gradients = [isinstance(each, str) or not {"forward", "gradient"} & each.keys() for each in differentiable]
            assert share(passing) >= TARGETS[device, dtype][0], (device, dtype)
            assert share(gradients) >= TARGETS[device, dtype][1], (device, dtype)


@pytest.mark.slow
def test_record_names_the_declared_operations() -> None:
    from webgpu_torch_core.operations import OPERATIONS

    assert json.loads((ROOT / "docs" / "compatibility.json").read_text())["operations"] == sorted(OPERATIONS)


def test_record_of_a_run(tmp_path: Path) -> None:
    bad = {**RESULT, "forward": "shape\n(1,)", "gradient": "forward", "fallback": ["qr"], "variants": {}}
    unlike = {**RESULT, "variants": {"out": "`strides`"}, "differentiable": False}
    results = {"add": RESULT, "qr": bad, "eq": unlike, "none": {**RESULT, "samples": 0, "forward": "missing"}}
    path = tmp_path / "record.json"
    record(path, "cpu", "float32", results, whole=True)
    record(path, "webgpu", "float32", {"add": RESULT}, whole=False)
    known = json.loads(path.read_text())
    assert known["results"]["webgpu"] == {"float32": {"add": "gradient"}}
    assert known["counts"]["cpu"]["float32"] == {"samples": [9, 3, 12], "errors": None}
    assert known["results"]["cpu"]["float32"] == {
        "add": "gradient",
        "qr": {"forward": "shape (1,)", "fallback": ["qr"], "differentiable": True},
        "eq": {"variants": {"out": "`strides`"}, "differentiable": False},
    }
    page = generator()
    marks = [page.mark(known["results"]["cpu"]["float32"][name]) for name in ("add", "qr", "eq")]
    assert marks == ["grad", "no", "yes+"]
    text = "\n".join(page.database(known))
    assert "| cpu | float32 | 2/3 (66.7%) | 1/2 (50.0%) | 1/3 (33.3%) |" in text
    assert "- `eq`, cpu float32; out: `'strides'`" in text
    assert "- `qr`, cpu float32; forward: `shape (1,)`" in text
    record(path, "webgpu", "int64", results, whole=True, limit=8)
    assert "| 12 (at most 8 per operation) |" in "\n".join(page.database(json.loads(path.read_text())))


def test_counts_leave_out_what_pytorch_does_not_run() -> None:
    results = {
        "add": {**RESULT, "errors": [4, 3, 2, ["does not raise"]]},
        "none": {**RESULT, "samples": 0, "forward": "missing"},
    }
    counts = Counts(results)
    assert (counts.forward, counts.gradient, counts.errors) == ([True], [True], [4, 3, 2])
    assert "error inputs: 4, 75.0% raise" in summary(results, "cpu", "float32")
    assert families(results) == "torch (1)\n  add\n    error: does not raise"
    assert entry(RESULT) == "gradient"
