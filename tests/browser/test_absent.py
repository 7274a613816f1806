"""What a machine without a browser is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "pytest", "-q", "tests/browser/test_export_page.py", "-k", "page_without")


@pytest.mark.slow
@pytest.mark.parametrize(
    "required, status, said",
    [
        ("0", 0, "NOT TESTED: Chromium was not found"),
        ("1", 1, "WEBGPU_TORCH_REQUIRE_BROWSER=1, but Chromium was not found"),
    ],
)
def test_without_chromium_the_tests_say_how_to_install_it(
    tmp_path: Path, required: str, status: int, said: str
) -> None:
    environment = os.environ | {"PATH": str(tmp_path), "WEBGPU_TORCH_REQUIRE_BROWSER": required}
    done = subprocess.run(COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout
    assert said in done.stdout and "apt-get install chromium" in done.stdout
