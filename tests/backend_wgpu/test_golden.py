"""Kernels are the recorded ones, on adapters that this machine need not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RECORD = Path(__file__).parent / "golden" / "record.py"


@pytest.mark.slow_on("default", "llvmpipe")
@pytest.mark.parametrize("profile", ["discrete", "default", "compatibility", "llvmpipe"])
def test_every_kernel_is_as_recorded(profile: str) -> None:
    # In a process of its own: the recording takes the place of the WebGPU backend.
    found = subprocess.run([sys.executable, str(RECORD), profile], capture_output=True, text=True, check=False)
    assert found.returncode == 0, (
        f"kernels differ from tests/backend_wgpu/golden; if that is meant, record them anew by `{RECORD} --write`\n"
        f"{found.stdout[-20000:]}{found.stderr[-5000:]}"
    )


def test_no_recorded_kernel_breaks_a_rule() -> None:
    """The record says which of WebGPU's rules a program breaks on an adapter: none does, on any."""
    lines = (RECORD.parent / "index.txt").read_text().splitlines()
    assert (
        sum(line.startswith("# compatibility ") for line in lines)
        == sum(line.startswith("# discrete ") for line in lines)
        > 5
    )
    assert [line for line in lines if line.startswith("broken")] == []
