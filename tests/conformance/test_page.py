"""docs/compatibility.md is what the recorded results and the registry make, and the results are of this registry."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from report import STANDING, Counts, entry, families, read_record, record, regressions, summary, update

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "compatibility.json.gz"
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


@pytest.mark.parametrize(("device", "dtype"), sorted(STANDING))
def test_record_stands_where_it_stood(device: str, dtype: str) -> None:
    """As many operations pass as the numbers in report.py say: fewer is a regression, more raises the numbers."""
    table = read_record(RECORD)["results"][device][dtype].values()
    passing = [isinstance(each, str) or "forward" not in each for each in table]
    differentiable = [each for each in table if each == "gradient" or isinstance(each, dict) and each["differentiable"]]
    gradients = [isinstance(each, str) or not {"forward", "gradient"} & each.keys() for each in differentiable]
    assert (sum(passing), sum(gradients)) == STANDING[device, dtype]


def test_a_pass_that_becomes_a_fail_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json.gz"
    assert update(path, "cpu", "float32", {"add": RESULT, "new": {**RESULT, "forward": "shape"}}, whole=True)
    worse = {"add": {**RESULT, "variants": {"out": "strides"}}, "new": RESULT}
    assert regressions(path, "cpu", "float32", worse) == {"add": ["out"]}
    assert not update(path, "cpu", "float32", worse, whole=True)
    assert "passes in the record and does not now: add (out)" in capsys.readouterr().out
    assert read_record(path)["results"]["cpu"]["float32"]["add"] == "gradient"
    assert regressions(path, "cpu", "float32", {"add": {**RESULT, "fallback": ["qr"]}}) == {"add": ["qr on the CPU"]}
    assert not regressions(path, "cpu", "float32", {"new": {**RESULT, "gradient": "wrong"}})


@pytest.mark.slow
def test_record_names_the_declared_operations() -> None:
    from webgpu_torch_core.operations import OPERATIONS

    assert read_record(RECORD)["operations"] == sorted(OPERATIONS)


def test_record_of_a_run(tmp_path: Path) -> None:
    bad = {**RESULT, "forward": "shape\n(1,)", "gradient": "forward", "fallback": ["qr"], "variants": {}}
    unlike = {**RESULT, "variants": {"out": "`strides`"}, "differentiable": False}
    results = {"add": RESULT, "qr": bad, "eq": unlike, "none": {**RESULT, "samples": 0, "forward": "missing"}}
    path = tmp_path / "record.json.gz"
    record(path, "cpu", "float32", results, whole=True)
    record(path, "webgpu", "float32", {"add": RESULT}, whole=False)
    known = read_record(path)
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
    assert "| 12 (at most 8 per operation) |" in "\n".join(page.database(read_record(path)))


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
