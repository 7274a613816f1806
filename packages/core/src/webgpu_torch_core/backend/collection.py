"""Work that makes many objects which stay, and no garbage: collecting in between takes a quarter of its time and finds nothing."""

from __future__ import annotations

import gc
import threading


class _Postponed:
    """A region in which garbage is not collected, in any thread: what refers to itself is freed after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._goes_on = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._goes_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._goes_on:
                gc.enable()


collection_postponed = _Postponed()


__all__ = ["collection_postponed"]
