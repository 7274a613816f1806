"""The environment variables that core reads; each package that reads some has such a file, and nothing else reads any."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple


class Variable(NamedTuple):
    """An environment variable, read whenever it is asked for."""

    name: str
    #: one sentence for users; docs/configuration.md has it, too
    meaning: str

    def text(self, default: str = "") -> str:
        """Return the value; the default where it is unset or empty."""
        return os.environ.get(self.name) or default

    def is_on(self) -> bool:
        """Return whether it is set, and not to 0."""
        return self.text("0") != "0"

    def number(self, default: int) -> int:
        """Return the value as an integer.

        Raises:
            ValueError: it is none.
        """
        text = self.text(str(default))
        if not text.isdigit():
            raise ValueError(f"the environment variable {self.name} must be a whole number, got {text!r}")
        return int(text)


CACHE = Variable(
    "WEBGPU_TORCH_CACHE",
    "where facts about drivers, plans and compiled kernels are kept; the platform's folder for caches otherwise",
)
DEBUG = Variable("WEBGPU_TORCH_DEBUG", "what is written to stderr, from 1 (devices) to 4 (the source of kernels)")
DEVICE = Variable("WEBGPU_TORCH_DEVICE", "the device that new tensors land on")
EAGER = Variable("WEBGPU_TORCH_EAGER", "1: every operation runs at once, unfused")
NODE_LIMIT = Variable("WEBGPU_TORCH_NODE_LIMIT", "how many kernels may be recorded before they run (8192)")


def environment() -> object:
    """Return what the environment's variables are kept in, which tells whether they changed."""
    return vars(os.environ)["_data"]


def cache_directory() -> Path | None:
    """Return where caches go: ``WEBGPU_TORCH_CACHE``, or the platform's folder for them; None where there is no home."""
    given = CACHE.text()
    if given:
        return Path(given)
    try:
        return _platform_directory()
    except RuntimeError:
        return None


def _platform_directory() -> Path:
    """Return the platform's folder for caches.

    Raises:
        RuntimeError: the user has no home folder.
    """
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "webgpu-torch"
