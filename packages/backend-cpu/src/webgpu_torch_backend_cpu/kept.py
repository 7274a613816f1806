"""Files that the next process finds: what took long to print or to compile, named after what it came from."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from webgpu_torch_core.config import cache_directory
from webgpu_torch_core.files.host_tensors import AtomicFile

#: files kept of each kind: of more, the oldest go
MOST_FILES = 4096
#: of plans, each of which is of a whole network's step
MOST_PLANS = 256
#: seconds after which what is to be kept is written, and how much of it one process writes: a suite of tests has kernels without
#: end, none of which it needs again
WRITTEN_AFTER, MOST_WRITTEN = 1.0, 1024

logger = logging.getLogger(__name__)


def read(name: str) -> bytes | None:
    """Return what is kept under a name, None where there is no whole file."""
    folder = _folder()
    if folder is None:
        return None
    try:
        data = (folder / name).read_bytes()
    except OSError:
        return None
    found = data[32:]
    return found if hashlib.sha256(found).digest() == data[:32] else None


def write(contents: Mapping[str, bytes]) -> None:
    """Keep contents by their names for the next process; a folder that cannot be written keeps nothing."""
    folder = _folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, data in contents.items():
            with AtomicFile(folder / name) as file:
                file.write(hashlib.sha256(data).digest() + data)
        for suffix in {Path(name).suffix for name in contents}:
            _drop_oldest(folder, suffix)
    except OSError as error:
        logger.debug("compiled kernels are not kept: %s", error)


def write_later(name: str, data: Callable[[], bytes]) -> None:
    """Keep what a function returns under a name, beside the program."""
    _later.add(name, data)


def _folder() -> Path | None:
    base = cache_directory()
    return base / "cpu" if base else None


def _drop_oldest(folder: Path, suffix: str) -> None:
    """Remove the files that were written first where there are too many."""
    files = [entry for entry in os.scandir(folder) if entry.name.endswith(suffix)]
    most = MOST_PLANS if suffix == ".plan" else MOST_FILES
    if len(files) > most:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: most // 4]:
            os.unlink(entry.path)


class _Later:
    """What is to be written, and how much this process may still write."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: dict[str, Callable[[], bytes]] = {}
        self.left = MOST_WRITTEN

    def add(self, name: str, data: Callable[[], bytes]) -> None:
        """Write something in a while, with what else comes until then."""
        with self.lock:
            if self.left <= 0:
                return
            self.left -= 1
            self.waiting[name] = data
            first = len(self.waiting) == 1
        # In a page nothing outlives the process, and there are no threads.
        if first and sys.platform != "emscripten":
            timer = threading.Timer(WRITTEN_AFTER, self.write)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError as error:
                # The interpreter ends, where it is written anyway.
                logger.debug("no thread writes compiled kernels: %s", error)

    def write(self) -> None:
        """Write all that waits."""
        with self.lock:
            contents, self.waiting = self.waiting, {}
        if contents:
            write({name: data() for name, data in contents.items()})


_later = _Later()


def _forked() -> None:
    """Leave what waits to the parent: its thread is not in the child."""
    _later.lock, _later.waiting = threading.Lock(), {}


atexit.register(_later.write)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

__all__ = ["read", "write", "write_later"]
