"""Runs packages that were written for PyTorch over this library and over PyTorch, and compares what they compute.

``python tests/ecosystem/sweep.py FOLDER [NAME ...]`` makes two environments in the folder (the versions of ``packages.txt``; one with
PyTorch, one with this library), runs the jobs of ``jobs/`` in both, each package in a process of its own, prints a table and
writes ``FOLDER/table.json``, in which packages that are not named keep their rows. Nothing is changed in the packages. With ``--page``
it writes the documentation's page of packages from the table.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTORCH = "torch==2.13.0"
TOLERANCE = 1e-3
PATIENCE = 900


def environments(folder: Path) -> tuple[Path, Path]:
    """Make the two environments, unless they are there, and return their interpreters."""
    reference, ours = folder / "pytorch", folder / "webgpu-torch"
    uv = [str(reference / "bin/uv"), "pip", "install", "--quiet", "--no-deps", "--python"]
    lines = (HERE / "packages.txt").read_text(encoding="utf-8").splitlines()
    listed = [each for each in lines if each and not each.startswith("#")]
    if not (folder / "made").exists():
        for each in (reference, ours):
            subprocess.run([sys.executable, "-m", "venv", str(each)], check=True)
        subprocess.run([str(reference / "bin/pip"), "install", "--quiet", "uv", PYTORCH], check=True)
        packages = sorted(str(each) for each in (ROOT / "packages").iterdir() if (each / "pyproject.toml").exists())
        editable = [part for each in packages for part in ("--editable", each)]
        subprocess.run([*uv, str(reference / "bin/python"), *listed], check=True)
        subprocess.run([*uv, str(ours / "bin/python"), *listed, *editable], check=True)
        subprocess.run([str(ours / "bin/pip"), "install", "--quiet", "wgpu"], check=True)
        (folder / "made").touch()
    return reference / "bin/python", ours / "bin/python"


def run(python: Path, name: str, results: Path, *options: str) -> dict[str, Any]:
    """Return what a package's jobs gave under an interpreter."""
    results.unlink(missing_ok=True)
    line = [str(python), str(HERE / "run_jobs.py"), str(results), name, *options]
    try:
        ended = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, cwd=results.parent)
        error = ended.stderr[-2000:]
    except subprocess.TimeoutExpired:
        error = f"took longer than {PATIENCE} s"
    if not results.exists():
        results.write_text(json.dumps({name: {"import": False, "error": error, "jobs": {}}}))
    return json.loads(results.read_text())[name]


def difference(ours: Any, reference: Any) -> float:
    """Return the largest difference between results, over the largest value or 1; infinity where they are not alike."""
    if isinstance(reference, dict) and "values" in reference and isinstance(ours, dict):
        if ours.get("shape") != reference["shape"]:
            return math.inf
        scale = max([1.0, *(abs(each) for each in reference["values"] if math.isfinite(each))])
        pairs = zip(ours["values"], reference["values"], strict=True)
        return max((_apart(one, other) / scale for one, other in pairs), default=0.0)
    if isinstance(reference, dict):
        return math.inf if not isinstance(ours, dict) or ours.keys() != reference.keys() else max(
            (difference(ours[key], each) for key, each in reference.items()), default=0.0
        )  # fmt: skip
    if isinstance(reference, list):
        if not isinstance(ours, list) or len(ours) != len(reference):
            return math.inf
        return max((difference(one, other) for one, other in zip(ours, reference, strict=True)), default=0.0)
    if isinstance(reference, float) and isinstance(ours, (int, float)):
        return _apart(ours, reference) / max(1.0, abs(reference) if math.isfinite(reference) else 1.0)
    return 0.0 if ours == reference else math.inf


def _apart(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    apart = abs(one - other)
    return math.inf if math.isnan(apart) else apart


def compared(name: str, ours: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """Return a package's row of the table."""
    row: dict[str, Any] = {"package": name, "imports": ours["import"], "jobs": {}}
    if not ours["import"]:
        row["error"] = ours.get("error", "")
    if not reference["import"]:
        row["reference_error"] = reference.get("error", "")
    for job, known in reference["jobs"].items():
        if "error" in known:
            row["jobs"][job] = {"state": "PyTorch fails", "error": known["error"]}
            continue
        found = ours["jobs"].get(job, {"error": "did not run"})
        if "error" in found:
            row["jobs"][job] = {"state": "fails", "error": found["error"]}
            continue
        apart = difference(found["result"], known["result"])
        row["jobs"][job] = {
            "state": "equal" if apart <= TOLERANCE else "differs", "difference": apart,
            "seconds": found["seconds"], "reference_seconds": known["seconds"],
        }  # fmt: skip
    return row


def sweep(folder: Path, names: list[str]) -> list[dict[str, Any]]:
    """Return the rows of the packages."""
    reference_python, our_python = environments(folder)
    known_folder, our_folder = folder / "known", folder / "ours"
    for each in (known_folder, our_folder):
        each.mkdir(exist_ok=True)

    def row(name: str) -> dict[str, Any]:
        known = known_folder / f"{name}.json"
        reference = json.loads(known.read_text())[name] if known.exists() else run(reference_python, name, known)
        found = compared(name, run(our_python, name, our_folder / f"{name}.json", "--drop-in"), reference)
        states = [each["state"] for each in found["jobs"].values()]
        print(
            f"{name:32} {'imports' if found['imports'] else 'NO IMPORT':10} {states.count('equal')} of {len(states)} equal",
            flush=True,
        )
        for job, each in found["jobs"].items():
            if each["state"] != "equal":
                last = each.get("error", "").strip().splitlines()[-1:] or [each.get("difference")]
                print(f"    {job}: {each['state']}: {str(last[0])[:200]}", flush=True)
        if not found["imports"]:
            print("   ", found["error"].strip().splitlines()[-1][:200], flush=True)
        return found

    with ThreadPoolExecutor(int(os.environ.get("WORKERS", "2"))) as pool:
        return list(pool.map(row, names))


HEAD = """# Your packages

Packages that were written for PyTorch, unchanged, over this library (`import webgpu_torch.as_torch` first, or
`python -m webgpu_torch run SCRIPT`) and over PyTorch, on the CPU with the same seeds. A job is what the package is for: a forward and a
backward pass, a few steps of training, a decomposition, a decoded text; it is equal where all that it returns differs by at most
1e-3 of the largest value. `tests/ecosystem/sweep.py FOLDER --page` wrote this page from its own run; the jobs are in
`tests/ecosystem/jobs`, the versions in `tests/ecosystem/packages.txt`.
"""


def page(rows: list[dict[str, Any]], summary: str) -> str:
    """Return the documentation's page of packages."""
    versions = dict(
        each.split("==") for each in (HERE / "packages.txt").read_text(encoding="utf-8").splitlines() if "==" in each
    )
    by_module = {each.lower().replace("-", "_"): version for each, version in versions.items()}
    lines = [
        HEAD,
        f"{min(row['date'] for row in rows)}: {summary}.",
        "",
        "| package | version | imports | jobs equal | not equal |",
    ]
    lines.append("| --- | --- | --- | --- | --- |")
    for row in rows:
        name, jobs = row["package"], row["jobs"]
        counted = {job: each for job, each in jobs.items() if each["state"] != "PyTorch fails"}
        equal = sum(each["state"] == "equal" for each in counted.values())
        amiss = ", ".join(f"`{job}`: {reason(each)}" for job, each in counted.items() if each["state"] != "equal")
        version = by_module.get(DISTRIBUTIONS.get(name, name), "")
        imports = "yes" if row["imports"] else "no"
        lines.append(f"| {name.replace('_', '-')} | {version} | {imports} | {equal} of {len(counted)} | {amiss} |")
    return "\n".join(lines) + "\n"


def write_page(jobs: str = "", suites: str = "") -> None:
    """Write the documentation's page of packages: what jobs gave, and what packages' own tests gave; the other part is kept."""
    place = ROOT / "docs/packages.md"
    kept_jobs, _, kept_suites = place.read_text(encoding="utf-8").partition("\n## ")
    parts = [jobs or kept_jobs, suites or (f"## {kept_suites}" if kept_suites else "")]
    place.write_text("\n".join(part for part in parts if part), encoding="utf-8")


def reason(job: dict[str, Any]) -> str:
    """Return why a job is not equal, in a few words."""
    if "error" not in job:
        return f"differs by {job['difference']:.1e}"
    last = (job["error"].strip().splitlines() or ["?"])[-1]
    return last.replace("|", "/").replace("`", "'").replace("<", "(").replace(">", ")")[:120]


#: job files that are not named after a distribution
DISTRIBUTIONS = {
    "averages": "torch_ema", "ignite": "pytorch_ignite", "neuralop": "neuraloperator", "open_clip": "open_clip_torch", "pyro": "pyro_ppl",
    "whisper": "openai_whisper",
}  # fmt: skip


def main() -> None:
    """Run the sweep and write the table."""
    given = [each for each in sys.argv[1:] if each != "--page"]
    folder = Path(given[0]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    names = given[1:] or sorted(each.stem for each in (HERE / "jobs").glob("*.py"))
    table = folder / "table.json"
    kept = {row["package"]: row for row in json.loads(table.read_text())} if table.exists() else {}
    today = date.today().isoformat()
    kept |= {row["package"]: {**row, "date": today} for row in sweep(folder, names)}
    rows = [kept[name] for name in sorted(kept)]
    table.write_text(json.dumps(rows, indent=1))
    jobs = [each for row in rows for each in row["jobs"].values() if each["state"] != "PyTorch fails"]
    equal = sum(each["state"] == "equal" for each in jobs)
    working = sum(any(each["state"] == "equal" for each in row["jobs"].values()) for row in rows)
    summary = (
        f"{sum(row['imports'] for row in rows)} of {len(rows)} packages import, {working} do a job as PyTorch does, "
        f"{equal} of {len(jobs)} jobs are equal"
    )
    print(summary)
    if "--page" in sys.argv:
        write_page(jobs=page(rows, summary))


if __name__ == "__main__":
    main()
