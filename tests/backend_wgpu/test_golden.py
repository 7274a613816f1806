"""Kernels are the recorded ones, on adapters that this machine need not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RECORD = Path(__file__).parent / "golden" / "record.py"


def test_every_kernel_is_as_recorded() -> None:
    # In a process of its own: the recording takes the place of the WebGPU backend.
    found = subprocess.run([sys.executable, str(RECORD)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, (
        f"kernels differ from tests/backend_wgpu/golden; if that is meant, record them anew by `{RECORD} --write`\n"
        f"{found.stdout[-20000:]}{found.stderr[-5000:]}"
    )
