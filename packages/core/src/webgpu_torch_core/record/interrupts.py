"""Signals held back while buffers are overwritten: a Ctrl-C that arrives meanwhile is delivered between two kernels.

An exception out of a signal handler may come between any two steps of Python's interpreter. Where values are replaced in
place that would lose them, so handlers wait there: the signal is noted, whoever runs kernels stops before the next one,
and the signal is raised again once everything is in order.
"""

from __future__ import annotations

import os
import signal
import threading
from _thread import get_ident
from operator import is_
from types import FrameType
from typing import Any

#: those that programs give handlers to; others end the process or do nothing
_WATCHED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)

# The module signal looks up enumerations around each of these, which takes longer than they do.
_exchange: Any = getattr(signal, "_signal", signal).signal
_handler_of: Any = getattr(signal, "_signal", signal).getsignal

#: signals that wait, in the order they came
pending: list[int] = []


_main = [threading.main_thread().ident]


class _Hold:
    """Holds signals back inside of ``with``; only Python's main thread receives any. Re-entrant."""

    def __init__(self) -> None:
        self.depth = 0
        self.replaced: list[tuple[int, Any]] = []
        # All handlers as they were the last time, and those of them that are functions.
        self.known: list[Any] = [None] * len(_WATCHED)
        self.called: list[tuple[int, Any]] = []

    def __enter__(self) -> None:
        if get_ident() != _main[0]:
            return
        if self.depth:
            self.depth += 1
            return
        try:
            handlers = [*map(_handler_of, _WATCHED)]
            if not all(map(is_, handlers, self.known)):
                self.called = [each for each in zip(_WATCHED, handlers, strict=True) if callable(each[1])]
                self.known = handlers
            for each in self.called:
                # Noted first: the exchange itself may deliver a signal that came before.
                self.replaced.append(each)
                _exchange(each[0], _note)
            self.depth = 1
        except ValueError:
            # Another interpreter than the process's first: it receives no signals.
            self.replaced.clear()
            self.depth = 1
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *_: object) -> None:
        if get_ident() != _main[0]:
            return
        self.depth -= 1
        if self.depth == 0:
            try:
                self._restore()
            finally:
                # Only now: one that came while handlers were put back was noted as well.
                waiting, pending[:] = pending[:], []
                for number in waiting:
                    signal.raise_signal(number)

    def _restore(self) -> None:
        """Put every handler back, whatever the first ones deliver."""
        if self.replaced:
            number, handler = self.replaced[-1]
            try:
                _exchange(number, handler)
            finally:
                self.replaced.pop()
                self._restore()


def _forked() -> None:
    # The thread that forked is the child's main thread.
    _main[0] = threading.get_ident()
    hold.depth = 0


def _note(number: int, frame: FrameType | None) -> None:
    pending.append(number)


hold = _Hold()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
