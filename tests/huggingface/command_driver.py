"""Runs several commands of ``webgpu-torch`` in one process: a list of them as JSON in, a list of outcomes as JSON out."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from typing import Any


def run(arguments: list[str], given: str) -> dict[str, Any]:
    """Return a command's exit status and what it printed."""
    from webgpu_torch_cli import main

    out, err = io.StringIO(), io.StringIO()
    sys.stdin = io.StringIO(given)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
            code = 1
    return {"returncode": code, "stdout": out.getvalue(), "stderr": err.getvalue()}


def main() -> None:
    """Run the commands."""
    commands = json.load(sys.stdin)
    outcomes = [run([str(each) for each in arguments], given) for arguments, given in commands]
    sys.__stdout__.write(json.dumps(outcomes))  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
