"""``webgpu-torch info``."""

from __future__ import annotations

import json
import platform
import sys
from argparse import Namespace


def info(options: Namespace) -> int:
    """Print what a report of a problem needs, whatever the problem is."""
    try:
        from webgpu_torch_core import plugins

        found, text = plugins.report(), plugins.describe()
    except Exception as error:
        # What is broken is what the report is about: a setting, an installation.
        where = f"Python {platform.python_version()}, {platform.platform()}"
        raise SystemExit(f"error: webgpu-torch does not start: {type(error).__name__}: {error} ({where})") from error
    measured = None
    if options.numerics:
        try:
            measured = plugins.registry.backend("webgpu").numerics()  # type: ignore[attr-defined]
        except Exception as error:
            print(f"error: the functions of an adapter could not be measured: {error}", file=sys.stderr)
    if options.json:
        print(json.dumps({**found, **({"numerics": measured} if options.numerics else {})}))
    else:
        print(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode(sys.stdout.encoding or "utf-8"))
        print(*filter(None, [measured]), sep="", end="\n" if measured else "")
    return 1 if options.numerics and measured is None else 0
