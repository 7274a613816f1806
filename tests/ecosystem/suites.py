"""Runs packages' own tests, unchanged, over this library and over PyTorch, and counts what passes in both.

``python tests/ecosystem/suites.py FOLDER SOURCES [NAME[:N] ...] [--seed N] [--each SECONDS] [--patience SECONDS] [--page]`` takes the
environments of ``sweep.py`` in a folder (made if they are not there) and a folder with the packages' sources, one folder each under
the names of ``TARGETS``; nothing is fetched. ``NAME:60`` runs 60 tests, drawn by their names and the seed; without a number it is 100,
and 0 is all. What PyTorch passes runs with this library; a test that takes longer than its limit, or that ends its process, has
failed. Outcomes are kept in ``FOLDER/suites``, where PyTorch's are looked up before they are found out again. ``--page`` writes the
table into the documentation's page of packages.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import date
from pathlib import Path
from typing import Any

from sweep import HERE, environments, write_page

sys.path.insert(0, str(HERE.parent / "pytorch_suite"))
from run import Side, counted, printed

#: where the tests are in a package's sources
TARGETS = {
    "accelerate": "tests", "einops": "einops/tests", "gpytorch": "test", "linear_operator": "test", "nflows": "tests",
    "segmentation_models_pytorch": "tests", "skorch": "skorch/tests", "timm": "tests",
}  # fmt: skip
DRAWN = 100
VARIABLES = {
    "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "offline", "MPLBACKEND": "agg", "EINOPS_TEST_BACKENDS": "numpy,torch",
}  # fmt: skip

HEAD = """## Their own tests

Packages' own tests, unchanged, over this library and over PyTorch, on the CPU: of the tests that PyTorch passes, how many pass here. Of
a package with many tests some ran, drawn by their names; what PyTorch fails or skips is not counted, and a test that takes longer than
its limit has failed. `tests/ecosystem/suites.py FOLDER SOURCES --page` wrote this table.

| package | sources | on | PyTorch passes | of these pass here | share | fail here |
| --- | --- | --- | --- | --- | --- | --- |
"""


def version(source: Path) -> str:
    """Return the version that sources say they are."""
    for place in (source / "PKG-INFO", source / "VERSION"):
        if place.exists():
            lines = [
                each
                for each in place.read_text(encoding="utf-8").splitlines()
                if "Version: " in each or " " not in each
            ]
            return lines[1 if "PKG" in place.name else 0].removeprefix("Version: ")
    return ""


def table(rows: list[dict[str, Any]]) -> str:
    """Return the part of the page with the rows of packages."""
    lines = []
    for row in rows:
        share = f"{row['ours'] / row['reference']:.1%}" if row["reference"] else ""
        failed = ", ".join(f"`{each}`" for each in row["failed"])
        counts = f"{row['date']} | {row['reference']} | {row['ours']} | {share}"
        lines.append(f"| {row['package']} | {row['version']} | {counts} | {failed} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Run the packages' tests and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("names", nargs="*", default=list(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=int, default=3600)
    parser.add_argument("--each", type=int, default=60)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    folder = given.folder.absolute()
    given.keep = folder / "suites"
    given.keep.mkdir(parents=True, exist_ok=True)
    given.device = "cpu"
    given.options = ["--timeout-method=thread", "--continue-on-collection-errors"]
    path = os.pathsep.join((str(HERE / "at_start"), str(HERE), os.environ.get("PYTHONPATH", "")))
    given.sides = [
        Side(str(python), ("seeded",), {**VARIABLES, "SIDE": side, "PYTHONPATH": path})
        for python, side in zip(environments(folder), ("pytorch", "ours"), strict=True)
    ]
    place = folder / "suites.json"
    kept = {row["package"]: row for row in json.loads(place.read_text())} if place.exists() else {}
    for each in given.names:
        given.label, _, sample = each.partition(":")
        source = given.sources.absolute() / given.label
        row = counted(source, TARGETS[given.label], int(sample or DRAWN), given)
        kept[given.label] = {
            **row, "package": given.label, "version": version(source), "date": date.today().isoformat()
        }  # fmt: skip
        printed(given.label, row)
        place.write_text(json.dumps([kept[name] for name in sorted(kept)], indent=1))
    if given.page:
        write_page(suites=table([kept[name] for name in sorted(kept)]))


if __name__ == "__main__":
    main()
