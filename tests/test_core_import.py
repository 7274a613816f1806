"""Importing core pulls in none of the heavy libraries."""

from __future__ import annotations

import subprocess
import sys


def test_core_imports_nothing_heavy() -> None:
    code = "import sys, webgpu_torch_core; print([m for m in ('numpy', 'wgpu', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
