"""Files that the next process finds: what took long to make, named after what it came from."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from ..config import cache_directory
from .host_tensors import AtomicFile

#: files kept of each kind: of more, the oldest go
MOST_FILES = 4096
#: of plans, each of which is of a whole network's step
MOST_PLANS = 256
#: seconds after which what is to be kept is written, and how much of it one process writes: a suite of tests has kernels without
#: end, none of which it needs again
WRITTEN_AFTER, MOST_WRITTEN = 1.0, 1024

logger = logging.getLogger(__name__)

_all: weakref.WeakSet[KeptFiles] = weakref.WeakSet()


class KeptFiles:
    """Files in one folder of the cache.

    Args:
        folder: its name.
    """

    def __init__(self, folder: str) -> None:
        self.name = folder
        self._lock = threading.Lock()
        # What is to be written, and how much this process may still write.
        self._waiting: list[Callable[[], tuple[str, bytes]]] = []
        self._left = MOST_WRITTEN
        # By a folder that was looked at, how names of its files begin.
        self._beginnings: dict[Path, set[str]] = {}
        _all.add(self)

    @property
    def folder(self) -> Path | None:
        """The folder, None where nothing is kept."""
        base = cache_directory()
        return base / self.name if base else None

    def read(self, name: str) -> bytes | None:
        """Return what is kept under a name, None where there is no whole file."""
        folder = self.folder
        if folder is None:
            return None
        try:
            data = (folder / name).read_bytes()
        except OSError:
            return None
        found = data[32:]
        return found if hashlib.sha256(found).digest() == data[:32] else None

    def has(self, beginning: str) -> bool:
        """Return whether something is kept under a name that begins so, up to its first hyphen: by this process, or by others
        until it first asked."""
        folder = self.folder
        if folder is None:
            return False
        found = self._beginnings.get(folder)
        if found is None:
            try:
                names = os.listdir(folder)
            except OSError:
                names = []
            found = self._beginnings[folder] = {name.partition("-")[0] for name in names}
        return beginning in found

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Keep contents by their names for the next process; a folder that cannot be written keeps nothing."""
        folder = self.folder
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name, data in contents.items():
                with AtomicFile(folder / name) as file:
                    file.write(hashlib.sha256(data).digest() + data)
                if folder in self._beginnings:
                    self._beginnings[folder].add(name.partition("-")[0])
            for suffix in {Path(name).suffix for name in contents}:
                _drop_oldest(folder, suffix)
        except OSError as error:
            logger.debug("what was made is not kept: %s", error)

    def write_later(self, made: Callable[[], tuple[str, bytes]]) -> None:
        """Keep what a function returns, a name and what is kept under it, beside the program, with what else comes until then."""
        with self._lock:
            if self._left <= 0:
                return
            self._left -= 1
            self._waiting.append(made)
            first = len(self._waiting) == 1
        # In a page nothing outlives the process, and there are no threads.
        if first and sys.platform != "emscripten":
            timer = threading.Timer(WRITTEN_AFTER, self.write_waiting)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError as error:
                # The interpreter ends, where it is written anyway.
                logger.debug("no thread writes what was made: %s", error)

    def write_waiting(self) -> None:
        """Write all that waits."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if waiting:
            self.write(dict(made() for made in waiting))

    def forget_waiting(self) -> None:
        """Leave what waits to the parent: its thread is not in the child."""
        self._lock, self._waiting = threading.Lock(), []


def _drop_oldest(folder: Path, suffix: str) -> None:
    """Remove the files that were written first where there are too many."""
    files = [entry for entry in os.scandir(folder) if entry.name.endswith(suffix)]
    most = MOST_PLANS if suffix == ".plan" else MOST_FILES
    if len(files) > most:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: most // 4]:
            os.unlink(entry.path)


def _ended() -> None:
    for files in list(_all):
        files.write_waiting()


def _forked() -> None:
    for files in list(_all):
        files.forget_waiting()


atexit.register(_ended)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
