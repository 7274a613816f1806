"""Damaged files and model folders: a ValueError or an OSError that names the file, whatever is wrong with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "damaged_folders.py"


@pytest.mark.parametrize(("count", "seed"), [(150, 1), pytest.param(3000, 2, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_by_name(count: int, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(count), str(seed)], capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["refused"] > count // 3
    assert found["loaded"] > count // 20
