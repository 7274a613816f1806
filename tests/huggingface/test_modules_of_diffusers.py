"""Every module of diffusers that can be imported with PyTorch can be imported with this library."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytest.importorskip("diffusers")
pytest.importorskip("torch")


@pytest.mark.slow
def test_every_module(run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    found: dict[str, dict[str, str]] = {}
    for torch in ("pytorch", "ours"):
        target = tmp_path / f"{torch}.json"
        ended = run_python(HERE / "import_modules.py", torch, "diffusers", target)
        assert ended.returncode == 0, ended.stderr[-2000:]
        found[torch] = json.loads(target.read_text())
    assert sum(not reason for reason in found["ours"].values()) > 1000
    wanted = {name for name, reason in found["pytorch"].items() if not reason}
    assert {name: found["ours"].get(name, "not found") for name in wanted if found["ours"].get(name, "-")} == {}
