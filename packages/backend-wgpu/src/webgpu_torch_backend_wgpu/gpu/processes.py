"""What looking for adapters needs of the process around it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def runtime_directory() -> Iterator[None]:
    """Set ``XDG_RUNTIME_DIR`` for a while where it is not: Vulkan drivers look for a Wayland display, which complains."""
    name = "XDG_RUNTIME_DIR"
    if name in os.environ or not sys.platform.startswith("linux"):
        yield
        return
    os.environ[name] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ[name]
