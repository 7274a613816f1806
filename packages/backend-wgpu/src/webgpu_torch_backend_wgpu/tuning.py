"""Choosing the fastest of several programs for one kernel, once per adapter and driver."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .disk_cache import DiskCache


class Tuner:
    """Remembers which candidate was fastest, in memory and on disk."""

    def __init__(self, cache: DiskCache) -> None:
        self.cache = cache
        self._chosen: dict[str, str] = {}

    def choose(self, key: str, candidates: Sequence[str], measure: Callable[[str], float]) -> str:
        """Return the candidate for a key: the remembered one if it still is one, else the fastest.

        ``measure`` returns seconds; a candidate for which it raises RuntimeError (it does not compile here, say) loses.

        Raises:
            ValueError: there are no candidates.
            RuntimeError: every candidate failed; the last one's error.
        """
        if not candidates:
            raise ValueError(f"no candidates to choose from for '{key}'")
        found = self._chosen.get(key) or self.cache.get(key)
        if found in candidates:
            self._chosen[key] = found
            return found
        if len(candidates) == 1:
            return candidates[0]
        best, best_seconds, failure = None, math.inf, None
        for candidate in candidates:
            try:
                seconds = measure(candidate)
            except RuntimeError as error:
                failure = error
                continue
            if best is None or seconds < best_seconds:
                best, best_seconds = candidate, seconds
        if best is None:
            raise failure or RuntimeError(f"no candidate for '{key}' ran")
        self._chosen[key] = best
        self.cache.put(key, best)
        return best
