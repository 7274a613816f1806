"""``webgpu-torch run``: a PyTorch program with this library in torch's place."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path


def run_program(script: str, arguments: Sequence[str]) -> int:
    """Run a file as ``__main__`` after :func:`webgpu_torch.install_as_torch`."""
    from .. import install_as_torch

    if not Path(script).is_file():
        raise SystemExit(f"error: there is no file {script}")
    install_as_torch()
    before, path = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before, path
    return 0
