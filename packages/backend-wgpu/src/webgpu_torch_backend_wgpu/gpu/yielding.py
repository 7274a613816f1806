"""Lets threads that compile go on while another one computes in Python.

Between two calls of a library a thread needs the interpreter for some microseconds. A thread that computes keeps it for five
milliseconds, in which a whole kernel compiles.
"""

from __future__ import annotations

import sys
import threading

#: seconds after which a thread gives the interpreter up to others that wait for it
_SOON = 2e-4


class Yielding:
    """Has threads give the interpreter up sooner, as long as somebody wants that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._usual = self._soon = 0.0

    def begin(self) -> None:
        """Want it, too."""
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, _SOON))
                self._soon = sys.getswitchinterval()

    def end(self) -> None:
        """Want it no more: with the last one threads keep it as long as before, unless the program has set that meanwhile."""
        with self._lock:
            self._wanted -= 1
            if not self._wanted and sys.getswitchinterval() == self._soon:
                sys.setswitchinterval(self._usual)


yielding = Yielding()
