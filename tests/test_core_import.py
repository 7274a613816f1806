"""Importing core pulls in none of the heavy libraries."""

from __future__ import annotations

import re
import subprocess
import sys


def test_core_imports_nothing_heavy() -> None:
    code = "import sys, webgpu_torch_core; print([m for m in ('numpy', 'wgpu', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_import_time_is_reported() -> None:
    """Printed, not compared: how long an import takes says as much about the machine as about us."""
    command = [sys.executable, "-X", "importtime", "-c", "import webgpu_torch_core"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    total = re.search(r"(\d+) \| webgpu_torch_core$", found.stderr, re.MULTILINE)
    assert total is not None
    print(f"import webgpu_torch_core: {int(total[1]) / 1000:.0f} ms")
