"""Parts of a tape that could not run as a whole: what a value depends on, or what reports, without the kernel that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..backend.interface import Copy
from .interrupts import hold
from .runs import Run, name_kernel

if TYPE_CHECKING:
    from .engine import Engine
    from .tape import Tape, Value


def compute_alone(engine: Engine, tape: Tape, value: Value) -> None:
    """Compute one value of a tape, without overwriting anything."""
    tape.settle()
    slot = value.place[1]
    if value.buffer is not None:
        return
    numbers = tape.cone((slot,))
    merges = len(numbers) > 1 and engine.device.fuses and not engine.eager
    try:
        buffers = _run(engine, tape, numbers, (slot,))
    except Exception:
        if not merges:
            raise
        buffers = _run(engine, tape, numbers, (slot,), fuses=False)
    with hold:
        tape.hold(slot, buffers[slot])


def report_alone(engine: Engine, tape: Tape) -> None:
    """Run what reports and does not depend on a kernel that fails."""
    with engine.lock:
        tape.settle()
        for slot in tape.reporting():
            try:
                _run(engine, tape, tape.cone((slot,)), (), fuses=False)
            except Exception:
                pass


def _run(engine: Engine, tape: Tape, numbers: list[int], slots: Sequence[int], fuses: bool = True) -> dict[int, object]:
    """Run some entries of a tape, and return the buffers of these slots."""
    scheduled = engine.schedule(tape, numbers, slots, (), fuses)
    try:
        externals = tape.buffers(scheduled.inputs)
        externals += engine.device.allocate_all(scheduled.fresh)
        engine.execute(Run(scheduled.plan, externals, tape.parameters(numbers)))
    except Exception as error:
        names = dict.fromkeys(step.kernel.name for step in scheduled.plan.steps if not isinstance(step, Copy))
        name_kernel(error, ", ".join(names)[:200], engine.device)
        raise
    return {slot: externals[number] for slot, number in scheduled.outputs}
