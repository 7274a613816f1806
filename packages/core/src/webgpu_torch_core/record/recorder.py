"""What one thread records for a device, and what it has been told of it."""

from __future__ import annotations

import itertools
import threading

from ..backend.interface import REPORT_SLOTS
from .ahead import Ahead
from .context import context
from .tape import Tape, Value

#: numbers of the threads that record
_threads = itertools.count()


class Recorder:
    """What one thread records for a device.

    Attributes:
        tape: what it recorded and nothing has computed yet.
        reads: how often it has read results.
        slot: which of the device's reports are its own.
        reporting: how many kernels that report it has recorded.
        told: how many of these had run when it was last told.
        failed: what checks of values found (0: nothing), of int64, since results were last read; None without checks.
        lone: how many results in a row were asked for before anything else was recorded.
        unread: whether a kernel ran at once and nothing has been read since.
        ahead: where it may hand over what it repeats before all of it is recorded.
        switches: the thread's :class:`Context` as a dictionary: to look there takes a fifth of the time.
    """

    __slots__ = ("ahead", "failed", "lone", "reads", "reporting", "slot", "switches", "tape", "told", "unread")

    def __init__(self) -> None:
        self.tape = Tape(open=False)
        self.reads = 0
        self.slot = next(_threads) % REPORT_SLOTS
        self.reporting = self.told = 0
        self.failed: Value | None = None
        self.lone = 0
        self.unread = False
        self.ahead = Ahead()
        self.switches = context.__dict__

    def report_code(self, number: int) -> int:
        """Return the code by which a kernel that this thread records reports what a check finds."""
        self.reporting += 1
        return number * REPORT_SLOTS + self.slot


class Recorders(threading.local):
    """The recorder of each thread: one look-up, where attributes of what differs by thread would be one each."""

    def __init__(self) -> None:
        self.own = Recorder()
