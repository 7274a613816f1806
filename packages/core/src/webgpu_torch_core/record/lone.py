"""Kernels that run at once: those of a thread that reads each result before it records the next.

A tape is of no use to such a program, and takes longer than a kernel over a few numbers. As soon as the thread goes on before it
has read a result, it records again, so that several operations can become one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import ref

from ..backend import profiling
from ..ir.kernels import Kernel
from .context import context
from .tape import Entry, Tape, Value

if TYPE_CHECKING:
    from ..scheduling import Scheduled
    from .engine import Engine
    from .recorder import Recorder

#: so many results in a row, each asked for alone, before the next kernel runs at once
LONE_AFTER = 4


def run_at_once(
    engine: Engine, recorder: Recorder, kernel: Kernel, values: Sequence[Value], parameters: Sequence[float | int]
) -> list[Value] | None:
    """Run a kernel and return what it made; None where it has to be recorded.

    Nothing is lost by an exception: the kernel writes into new buffers only, and what recording it raises has its name.
    """
    tape = recorder.tape
    if recorder.unread:
        recorder.unread, recorder.lone = False, 0
        return None
    if (tape.open and tape.entries) or context.capture is not None or profiling.listener is not None:
        return None
    buffers: list[object] = []
    for value in values:
        if value.buffer is None or value.engine is not engine:
            return None
        buffers.append(value.buffer)
    key = (id(kernel), tuple(map(buffers.index, buffers)))
    with engine.lock:
        try:
            found = engine.lone[key] if key in engine.lone else _planned(engine, key, kernel, values, parameters)
            if found is None:
                recorder.lone = 0
                return None
            externals = [*dict.fromkeys(buffers), *engine.device.allocate_all(found.fresh)]
            engine.device.run_single(found.plan, externals, parameters)
        except Exception:
            return None
        statistics = engine.statistics
        statistics["flushes"] += 1
        statistics["recorded"] += 1
        statistics["kernels"] += 1
    recorder.unread = True
    outputs = kernel.outputs
    if len(outputs) == 1:
        return [Value(engine, outputs[0].dtype, outputs[0].numel, externals[found.outputs[0][1]])]
    return [
        Value(engine, output.dtype, output.numel, externals[number])
        for output, (_, number) in zip(outputs, found.outputs, strict=True)
    ]


def _planned(
    engine: Engine,
    key: tuple[int, tuple[int, ...]],
    kernel: Kernel,
    values: Sequence[Value],
    parameters: Sequence[float | int],
) -> Scheduled | None:
    """Return the plan of a kernel alone, which overwrites none of its operands."""
    tape = Tape()
    operands = tuple([tape.admit(value, value.buffer) for value in values])
    first = len(tape.slots)
    made = [Value(engine, output.dtype, output.numel) for output in kernel.outputs]
    tape.slots += map(ref, made)
    tape.entries.append(Entry(kernel, operands, first, tuple(parameters)))
    scheduled = engine.schedule(tape, [0], range(first, len(tape.slots)), (), True)
    # Inputs as they come in, and an output of its own for each.
    alone = scheduled.single and scheduled.inputs == tuple(range(first)) and len(scheduled.outputs) == len(made)
    found = engine.lone[key] = scheduled if alone else None
    return found
