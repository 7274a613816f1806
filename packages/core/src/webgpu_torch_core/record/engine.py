"""Runs what threads recorded for one device: plans by the structure of tapes, results into values, and nothing lost.

Every thread has a tape of its own per device; the list of its kernels and slots is the structure of a graph, so the plan of
a loop's second iteration is found by one dictionary look-up. Reading a value runs the tape that makes it, whoever
recorded it. A tape is kept until it ran: what an exception kept from running runs when somebody asks for it again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import ref

from .. import config
from ..backend import profiling
from ..backend.interface import REPORT_SLOTS, Copy, Device, DeviceLostError, Plan
from ..bounded import Bounded
from ..ir.dtypes import dtype
from ..scheduling import Limits, Scheduled
from .ahead import run_part, run_rest
from .alone import compute_alone, report_alone
from .checks import error_of, error_of_check
from .context import context
from .explaining import explain
from .interrupts import hold
from .lone import LONE_AFTER, Lone, lone
from .plans import PLANS_KEPT, Plans, planned
from .recorder import Recorder, Recorders
from .runs import Run, name_kernel
from .tape import NOWHERE, Entry, Structure, Tape, Value, new_entry, new_value

NODE_LIMIT = config.NODE_LIMIT.number(8192)


class Engine:
    """Records kernels for one device, a tape per thread, and runs them as plans."""

    def __init__(self, device: Device) -> None:
        # The latter are most operands plus outputs that one kernel may bind.
        self.device, self.maximum_bindings = device, device.maximum_bindings
        # Whether kernels report, and which types there are: asked for by every operation that reads at positions, and by every one.
        self.reports, self.dtypes = device.reports, device.dtypes
        # The first is held while plans run, the second while a tape grows or is closed; taken in this order.
        self.lock = threading.RLock()
        self.tapes_lock = threading.RLock()
        self.plans = Plans()
        # Kernels that ran alone as they were called, results that were read, and all else that :attr:`statistics` tells.
        self.at_once = self.reads = 0
        self.counts = {"recorded": 0, "flushes": 0, "scheduled": 0, "kernels": 0, "ahead": 0}
        self.eager = config.EAGER.is_on()
        # By a kernel's identity: how it runs alone.
        self.lone: Bounded[int, Lone] = Bounded(PLANS_KEPT)
        # Reports of kernels that threads have not been told yet, by the thread's slot.
        self._reports: dict[int, tuple[int, int]] = {}
        self.recorders = Recorders()
        self.limits = Limits(device)
        # What a device that works on its own does in between has states that no exception may interrupt.
        self._hold: Any = hold if device.asynchronous else self.lock

    @property
    def statistics(self) -> dict[str, int]:
        """How often what has been done so far."""
        alone = {"recorded": self.at_once, "flushes": self.at_once, "kernels": self.at_once, "reads": self.reads}
        return {key: self.counts.get(key, 0) + alone.get(key, 0) for key in (*self.counts, "reads")}

    # Recording

    @property
    def capture(self) -> Any:
        """The recording of a compiled function that this thread is in, or None."""
        return context.capture

    @property
    def recorder(self) -> Recorder:
        """What this thread records."""
        return self.recorders.own

    @property
    def tape(self) -> Tape:
        """What this thread recorded and nothing has computed yet."""
        recorder = self.recorders.own
        if not recorder.tape.open:
            recorder.tape = Tape(context.capture)
        return recorder.tape

    @property
    def kernels(self) -> list[Any]:
        """The kernels that this thread recorded and nothing has computed yet."""
        return [entry.kernel for entry in self.recorder.tape.entries]

    def record(self, kernel: Any, values: Sequence[Value], parameters: Sequence[float | int] = ()) -> Sequence[Value]:
        """Append a kernel over these values and return its outputs, which nothing has computed yet."""
        recorder = self.recorders.own
        if recorder.lone >= LONE_AFTER:
            alone = self.lone.get(id(kernel)) or lone(self, kernel, values, parameters)
            made = alone.run(recorder, values, parameters)
            if made is not None:
                return made
        tape, ahead, tapes_lock = recorder.tape, recorder.ahead, self.tapes_lock
        if ahead.traces and context.capture is None and ahead.reaches(kernel, tape):
            run_part(self, tape)
        while True:
            if not tape.open:
                tape = self.tape
            slots: list[int] = []
            for value in values:
                home, slot = value.place
                if home is not tape:
                    buffer = value.buffer
                    if buffer is None or value.engine is not self:
                        buffer = self.computed(value)
                    with tapes_lock:
                        slot = tape.admit(value, buffer)
                slots.append(slot)
            outputs: list[Value] = []
            with tapes_lock:
                # Another thread that wanted one of its values may have run the tape in the meantime.
                if tape.open:
                    held = tape.slots
                    first = len(held)
                    for output in kernel.outputs:
                        value = new_value(self, output.dtype, output.numel)
                        value.place = (tape, len(held))
                        held.append(ref(value))
                        outputs.append(value)
                    tape.entries.append(new_entry(Entry, (kernel, tuple(slots), first, tuple(parameters))))
                    break
        if self.eager or tape.hasty or len(tape.entries) >= NODE_LIMIT:
            self.flush()
        return outputs

    def computed(self, value: Value) -> object:
        """Return the buffer of a value from outside of a tape, computing it first if need be.

        Raises:
            DeviceLostError: it was on a device that stopped working.
        """
        if value.engine is not self and value.engine.device.lost is not None:
            raise DeviceLostError(
                f"a tensor that takes part lived on a device that was lost: {value.engine.device.lost}"
            )
        return value.realize()

    def allocate(self, dtype: dtype, numel: int) -> Value:
        """Return a value with a buffer of undefined contents."""
        return new_value(self, dtype, numel, self.device.allocate(numel * dtype.itemsize))

    def upload(self, dtype: dtype, data: Any) -> Value:
        """Return a value holding host bytes."""
        view = memoryview(data).cast("B") if not isinstance(data, memoryview) or data.format != "B" else data
        value = self.allocate(dtype, len(view) // dtype.itemsize)
        if len(view):
            with self._hold:
                self.device.write(value.buffer, view)
        return value

    def keep(self, dtype: dtype, data: Any) -> Value:
        """Return a value of host bytes that nobody else holds: in their own memory where the device takes it."""
        wrap, memory = getattr(self.device, "wrap_host", None), memoryview(data).cast("B")
        if wrap is None or memory.readonly:
            return self.upload(dtype, memory)
        return new_value(self, dtype, len(memory) // dtype.itemsize, wrap(memory))

    # Results

    def read(self, value: Value) -> bytearray:
        """Return a value's bytes, computing it first if need be.

        Raises:
            RuntimeError: the device returned another number of bytes.
        """
        recorder = self.count_read()
        recorder.unread = False
        nbytes = value.numel * value.dtype.itemsize
        buffer = value.buffer
        if buffer is None or self.device.asynchronous:
            with self._hold:
                # What kernels report comes along with what is read.
                data = self._compute_and_read(value, nbytes) if buffer is None else self._read(buffer, nbytes)
                if self.reports or recorder.failed is not None:
                    self.raise_failed_checks()
            return data
        # Nothing that a host's device runs meanwhile writes there, as long as somebody has the value.
        data = self.device.read(buffer, nbytes) if nbytes else bytearray()
        if len(data) != nbytes:
            self._checked(data, nbytes)
        if self.reports or recorder.failed is not None:
            self.raise_failed_checks()
        return data

    def _compute_and_read(self, value: Value, nbytes: int) -> bytearray:
        """Return the bytes of a value that nothing has computed yet; the device is told that they are waited for."""
        device = self.device
        with self.lock:
            device.expects_read = nbytes > 0
            try:
                buffer = self.compute(value)
            finally:
                device.expects_read = False
            return self._read(buffer, nbytes)

    async def read_async(self, value: Value) -> bytearray:
        """Do what :meth:`read` does; other tasks of the event loop run while the device works."""
        if not self.device.asynchronous:
            return self.read(value)
        self.count_read()
        self._flush_reports()
        failed, self.recorder.failed = self.recorder.failed, None
        wanted = [(each.realize(), each.numel * each.dtype.itemsize) for each in (value, failed) if each is not None]
        found = [await self.device.read_async(buffer, nbytes) if nbytes else bytearray() for buffer, nbytes in wanted]
        self._raise_failed(b"".join(found[1:]))
        return self._checked(found[0], wanted[0][1])

    def read_later(self, value: Value) -> Callable[[], bytearray]:
        """Start what :meth:`read` does; the function that is returned waits for it, and not for what is recorded meanwhile."""
        self.count_read()
        buffer, nbytes = value.realize(), value.numel * value.dtype.itemsize
        with self._hold:
            finish = self.device.read_later(buffer, nbytes) if nbytes else bytearray

        def wait() -> bytearray:
            with self._hold:
                data = self._checked(finish(), nbytes)
            self.raise_failed_checks()
            return data

        return wait

    def count_read(self) -> Recorder:
        """Note that results are read, and return what this thread records."""
        if context.capture is not None:
            context.capture.broken = "it reads results while it runs"
        self.reads += 1
        recorder = self.recorders.own
        recorder.reads += 1
        return recorder

    def _read(self, buffer: Any, nbytes: int) -> bytearray:
        """Return the first bytes of a buffer; signals are held back."""
        return self._checked(self.device.read(buffer, nbytes), nbytes) if nbytes else bytearray()

    def _checked(self, data: bytearray, nbytes: int) -> bytearray:
        if len(data) != nbytes:
            raise RuntimeError(f"{self.device.name}: read() returned {len(data)} bytes where {nbytes} were asked for")
        return data

    def raise_failed_checks(self) -> None:
        """Raise the exception of a check that failed since the last results were read."""
        recorder = self.recorders.own
        value = recorder.failed
        if value is None and not (self.reports and self._may_have_reported(recorder)):
            return
        recorder.failed = None
        with self._hold:
            check = self._read(value.realize(), 8) if value is not None else b""
        self._raise_failed(check)

    def _may_have_reported(self, recorder: Recorder) -> bool:
        """Return whether kernels may have reported what nobody was told: what this thread recorded, or any that ran."""
        return recorder.told != recorder.reporting or bool(self._reports) or self.device.may_have_reported()

    def _flush_reports(self) -> None:
        """Compute what reports, also what nobody can read any more."""
        recorder = self.recorders.own
        if self.reports and recorder.told != recorder.reporting:
            tape = recorder.tape
            try:
                self.flush()
            except Exception:
                # What is read need not depend on what failed.
                report_alone(self, tape)
            recorder.told = recorder.reporting

    def _raise_failed(self, check: bytes | bytearray) -> None:
        """Raise the exception of a check's code in its bytes, else of what kernels reported."""
        failed = int.from_bytes(check, sys.byteorder, signed=True)
        code = found = 0
        if self.reports:
            self._flush_reports()
            with self.lock, self._hold:
                for each, position in self.device.reported():
                    self._reports[each % REPORT_SLOTS] = each, position
                if self._reports:
                    code, found = self._reports.pop(self.recorder.slot, (0, 0))
        if failed:
            raise error_of(failed)
        if code:
            raise error_of_check(code // REPORT_SLOTS, found)

    def overwrite(self, target: Value, source: Value) -> None:
        """Copy a value's elements into the buffer of another, whose memory is visible outside."""
        with self.lock:
            buffer = source.realize()
            nbytes = target.numel * target.dtype.itemsize
            with hold:
                self.device.run(Plan([Copy(0, 1, nbytes)], 2, ()), [buffer, target.buffer], ())
                self.device.synchronize()
            if context.capture is not None and target.owner() is not None:
                context.capture.overwrite(self, target.owner(), source)

    def flush(self) -> None:
        """Compute everything this thread recorded that somebody can still reach.

        Raises:
            Exception: what a kernel raised. What is not computed by then is when it is asked for.
        """
        recorder = self.recorders.own
        # Who asks for everything has what ran at once, too.
        recorder.unread = False
        tape = recorder.tape
        if tape.entries:
            try:
                with self.lock:
                    self._run_tape(tape)
            except Exception:
                self._leave(tape)
                raise

    def compute(self, value: Value) -> Any:
        """Return a value's buffer: run the tape that makes it or, where that fails, what the value depends on.

        Raises:
            Exception: what a kernel raised that the value depends on, with a note of its name and device.
        """
        with self.lock:
            tape = value.place[0]
            if value.buffer is None and tape is not None:
                try:
                    self._run_tape(tape)
                except Exception:
                    # What the value does not depend on is no reason to withhold it; what it does raises again.
                    pass
                if value.buffer is None:
                    try:
                        compute_alone(self, tape, value)
                    except Exception:
                        self._leave(tape)
                        raise
            if value.buffer is None:
                raise RuntimeError("this value's computation failed earlier; its tensor holds nothing")
            return value.buffer

    def _leave(self, tape: Tape) -> None:
        """Record what follows a failure elsewhere: who wants a value of the tape tries again, others need not hear of it."""
        recorder = self.recorders.own
        if recorder.tape is tape:
            recorder.tape = Tape(open=False)

    def execute(self, run: Run) -> None:
        """Run a plan over buffers that nobody else sees: an exception leaves the rest undone, for good."""
        with self.lock:
            while not run.finished:
                with hold:
                    self._advance(run)

    def detach(self) -> None:
        """Let what this thread records from now on be a tape of its own."""
        with self.tapes_lock:
            self.recorder.tape.open = False

    # Running

    def _run_tape(self, tape: Tape) -> None:
        """Run a tape. An exception leaves on it what has not run."""
        with self.tapes_lock:
            tape.open = False
        if tape.running is not None:
            # An exception out of a signal's handler left it, or this is such a handler.
            self._stop(tape, None)
        if not tape.entries:
            return
        recorder = self.recorders.own
        alone = self.device.launches and len(tape.entries) == 1 and tape is recorder.tape
        recorder.lone = recorder.lone + 1 if alone else 0
        structure, whole = tape.structure(), tape.begun is None
        if not whole:
            if run_rest(self, tape, structure):
                return
            if not tape.entries:
                return tape.clear()
            structure = tape.structure()
        scheduled = self._plan(structure, tape)
        recorded, follows = tape.entries, whole and tape.failure is None and self.device.asynchronous
        if follows:
            recorder.ahead.trace, follows = None, tape.capture is None and not scheduled.followed
        externals = tape.buffers(scheduled.inputs)
        if scheduled.fresh:
            externals += self.device.allocate_all(scheduled.fresh)
        if tape.capture is not None:
            tape.capture.add(self, scheduled, tape)
        counts = self.counts
        counts["flushes"] += 1
        counts["recorded"] += len(tape.entries)
        counts["kernels"] += len(scheduled.plan.steps)
        if not (scheduled.single and tape.capture is None and self._run_single(tape, scheduled, externals)):
            self.drive(tape, (scheduled, Run(scheduled.plan, externals, tape.parameters())))
        if follows:
            # While the device works.
            recorder.ahead.ran(recorded, scheduled, self.device)

    def _run_single(self, tape: Tape, scheduled: Scheduled, externals: Sequence[object]) -> bool:
        """Run a plan of one kernel that may run twice, if the device has it at hand; return whether it ran.

        The tape is left as it was if anything comes between: whoever asks next runs it again, and names what fails.
        """
        if not self.device.runs_single or profiling.listener is not None or tape.failure is not None:
            return False
        entries = tape.entries
        try:
            parameters = entries[0].parameters if len(entries) == 1 else tape.parameters()
            self.device.run_single(scheduled.plan, externals, parameters)
        except Exception:
            return False
        if tape.running is None and tape.entries:
            self._publish(tape, scheduled, externals)
        return True

    def _plan(self, structure: Structure, tape: Tape) -> Scheduled:
        """Return the plan of a tape: the one found last time, or a new one in place of the one not used for longest."""
        found = self.plans.get(structure)
        if found is None:
            numbers = range(len(tape.entries))
            scheduled = profiling.timed(
                "webgpu_torch::schedule", self.schedule, tape, numbers, structure.wanted, structure.donatable, True
            )
            found = (scheduled, tape.entries)
            explain(self.device, scheduled.plan)
            self.plans.keep(structure, found)
        found[0].used = self.counts["flushes"]
        return found[0]

    def schedule(
        self, tape: Tape, numbers: Sequence[int], wanted: Sequence[int], donatable: Sequence[int], fuses: bool
    ) -> Scheduled:
        """Return the plan of some entries of a tape."""
        self.counts["scheduled"] += 1
        fuses = fuses and self.device.fuses and not self.eager
        entries = [tape.entries[number] for number in numbers]
        return planned(entries, wanted, donatable, fuses, self.device, self.limits)

    def drive(self, tape: Tape, running: tuple[Scheduled, Run]) -> None:
        """Run a plan to its end and hand out its results, or to a kernel that fails; signals are delivered between kernels."""
        tape.running = running
        scheduled, run = running
        # What a signal interrupts can begin its step again where nothing was overwritten.
        held: Any = self.lock if scheduled.repeatable and not self.device.asynchronous else hold
        while tape.running is running:
            with held:
                try:
                    self._advance(run)
                except Exception as error:
                    # Without what holds the run's buffers: the exception may be kept.
                    self._stop(tape, error.with_traceback(None))
                    run.table = None
                    raise
                # A signal's handler may have run the rest.
                if run.finished and tape.running is running:
                    begun = tape.begun
                    self._publish(tape, scheduled, begun.results(tape, self.device) if begun else run.externals)

    def _advance(self, run: Run) -> None:
        """Run kernels, and name the one that fails."""
        try:
            observer = profiling.listener
            self.device.advance(run) if observer is None else observer.advance(self.device, run)
        except Exception as error:
            if run.table is not None:
                name_kernel(error, run.name(), self.device)
            raise

    def _stop(self, tape: Tape, error: Exception | None) -> None:
        """Leave on a tape what has not run when a kernel failed or a signal came, over what the kernels before it computed."""
        with hold:
            if tape.running is None:
                return
            scheduled, run = tape.running
            if tape.capture is not None:
                tape.capture.broken = "a signal came while it ran" if error is None else "a kernel failed while it ran"
            if tape.begun is not None:
                tape.begun.settle(tape, error)
            elif run.table is not None:
                buffers = [*run.externals, *self.device.temporaries(run)]
                slots = scheduled.contents(run.position, run.begun)
                tape.remain(scheduled.inputs, {slot: buffers[number] for number, slot in slots.items()}, error)
            tape.running = None

    def _publish(self, tape: Tape, scheduled: Scheduled, externals: Sequence[object] | Mapping[int, object]) -> None:
        """Give values the buffers that a plan computed."""
        for slot, number in scheduled.outputs:
            value = tape.slots[slot]()
            # One that got its buffer before an interrupt keeps it.
            if value is not None and value.buffer is None:
                value.buffer = externals[number]
                if value.place[0] is tape:
                    value.place = NOWHERE
        if tape.capture is not None:
            tape.capture.ran(externals, scheduled, tape)
        tape.clear()
