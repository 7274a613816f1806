"""Choices that outlive the process: small JSON files in the platform's cache folder, safe under several processes."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

from webgpu_torch_core.config import cache_directory
from webgpu_torch_core.files.host_tensors import AtomicFile

#: entries kept per file; the oldest go first
ENTRY_LIMIT = 4096


def library_version() -> str:
    """Return the version of this distribution; caches of other versions are not read."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("webgpu-torch-backend-wgpu")
    except PackageNotFoundError:
        return "0"


class DiskCache:
    """A dictionary of JSON values under text keys, one file per library version, adapter and driver.

    Unreadable or damaged files count as empty and are rewritten; a folder that cannot be written leaves the values in
    memory. Two processes that write at once each leave a whole file; one may miss what the other just added.
    """

    def __init__(self, name: str, adapter: str, driver: str, directory: Path | None = None) -> None:
        safe = "".join(each if each.isalnum() else "-" for each in f"{adapter}-{driver}")[:120]
        folder = directory or cache_directory()
        #: the file; None where there is no folder for it
        self.path = folder / library_version() / safe / f"{name}.json" if folder else None
        self._lock = threading.Lock()
        self._values: dict[str, Any] | None = None

    def get(self, key: str) -> Any:
        """Return the value kept under a key, or None."""
        with self._lock:
            if self._values is None:
                self._values = self._read()
            return self._values.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key."""
        with self._lock:
            # What another process wrote meanwhile is kept.
            values = {**(self._values or {}), **self._read()}
            values.pop(key, None)
            values[key] = value
            while len(values) > ENTRY_LIMIT:
                del values[next(iter(values))]
            self._values = values
            self._write(values)

    def _read(self) -> dict[str, Any]:
        if self.path is None:
            return {}
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, values: dict[str, Any]) -> None:
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with AtomicFile(self.path) as file:
                file.write(json.dumps(values).encode())
