"""Subprocesses for programs whose ``torch`` is this library: this process may have PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def _environment() -> dict[str, str]:
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return os.environ | quiet | {"PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs Python with arguments in an empty folder and returns the ended process."""

    def run(*arguments: object, given: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *map(str, arguments)]
        environment = _environment() | variables
        return subprocess.run(
            command,
            env=environment,
            cwd=tmp_path,
            input=given,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def run_code(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """Return a function that runs a piece of code in a new process and returns what it prints; errors fail the test."""

    def run(code: str, *arguments: object, **variables: str) -> str:
        ended = run_python("-W", "ignore", "-c", textwrap.dedent(code), *arguments, **variables)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run
