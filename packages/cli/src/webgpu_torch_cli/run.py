"""``webgpu-torch run``: a PyTorch program with this library in torch's place."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


def run_program(script: str, arguments: Sequence[str], as_module: bool = False) -> int:
    """Run a file, or a module by its name, as ``__main__`` after :func:`webgpu_torch.install_as_torch`.

    An exception that ends the program is shown as Python shows it, from the program's own first line on.
    """
    from webgpu_torch_drop_in import install_as_torch

    if not as_module and not Path(script).is_file():
        raise SystemExit(f"error: there is no file {script}")
    install_as_torch()
    before, path = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    # As Python itself does it: a file's own folder, or the current one for a module.
    sys.path.insert(0, "" if as_module else str(Path(script).resolve().parent))
    try:
        if as_module and not _exists(script):
            raise SystemExit(f"error: there is no module {script}")
        if as_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except Exception as error:
        own = _own_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(own), own)
        return 1
    finally:
        sys.argv, sys.path[:] = before, path
    return 0


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames that start the program; all of it if the program had none yet."""
    found = traceback
    while found is not None and (
        found.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>")
        or found.tb_frame.f_globals.get("__name__") == "runpy"
    ):
        found = found.tb_next
    return found or traceback
