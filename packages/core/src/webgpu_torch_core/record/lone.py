"""Kernels that run at once: those of a thread that reads each result before it records the next.

A tape is of no use to such a program, and takes longer than a kernel over a few numbers. As soon as the thread goes on before it
has read a result, it records again, so that several operations can become one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from ..backend import profiling
from ..ir.dtypes import dtype
from ..ir.kernels import Kernel
from .context import context
from .tape import Entry, Tape, Value

if TYPE_CHECKING:
    from .engine import Engine
    from .recorder import Recorder

#: so many results in a row, each asked for alone, before the next kernel runs at once
LONE_AFTER = 4


class Lone(NamedTuple):
    """How a kernel runs alone.

    Fields:
        kernel: the one that was recorded; its identity is what it is found by, as long as it is here.
        launch: what takes the buffers of its operands and its parameters, and returns those of its outputs; None where it has to be
            recorded.
        single: the type and the number of elements of its output, if there is one only.
        order: which of the buffers each of several outputs is.
    """

    kernel: Kernel
    launch: Callable[[list[Any], Sequence[float | int]], list[Any]] | None = None
    single: tuple[dtype, int] | None = None
    order: tuple[int, ...] = ()


def run_at_once(
    engine: Engine, recorder: Recorder, kernel: Kernel, values: Sequence[Value], parameters: Sequence[float | int]
) -> list[Value] | None:
    """Run a kernel and return what it made; None where it has to be recorded.

    Nothing is lost by an exception: the kernel writes into new buffers only, and what recording it raises has its name.
    """
    if recorder.unread:
        recorder.unread, recorder.lone = False, 0
        return None
    tape = recorder.tape
    if (tape.open and tape.entries) or profiling.listener is not None or context.capture is not None:
        return None
    buffers: list[Any] = []
    for value in values:
        buffer = value.buffer
        if buffer is None or value.engine is not engine:
            return None
        buffers.append(buffer)
    found = engine.lone.get(id(kernel))
    try:
        if found is None:
            with engine.lock:
                found = engine.lone[id(kernel)] = _planned(engine, kernel, values, parameters)
        if found.launch is None:
            recorder.lone = 0
            return None
        made = found.launch(buffers, parameters)
    except Exception:
        return None
    engine.at_once += 1
    recorder.unread = True
    if found.single is not None:
        kind, numel = found.single
        return [Value(engine, kind, numel, made[0])]
    return [
        Value(engine, output.dtype, output.numel, made[place])
        for output, place in zip(kernel.outputs, found.order, strict=True)
    ]


def _planned(engine: Engine, kernel: Kernel, values: Sequence[Value], parameters: Sequence[float | int]) -> Lone:
    """Return how a kernel runs alone, over buffers of which several may be one, and overwriting none of them."""
    tape = Tape()
    given = [Value(engine, value.dtype, value.numel, object()) for value in values]
    operands = tuple([tape.admit(value, value.buffer) for value in given])
    first = len(tape.slots)
    made = [Value(engine, output.dtype, output.numel) for output in kernel.outputs]
    tape.slots += map(ref, made)
    tape.entries.append(Entry(kernel, operands, first, tuple(parameters)))
    scheduled = engine.schedule(tape, [0], range(first, len(tape.slots)), (), True)
    # Inputs as they come in, and an output of its own for each.
    if not (scheduled.single and scheduled.inputs == tuple(range(first)) and len(scheduled.outputs) == len(made)):
        return Lone(kernel)
    launch = engine.device.single(scheduled.plan, scheduled.fresh)
    single = (made[0].dtype, made[0].numel) if len(made) == 1 else None
    return Lone(kernel, launch, single, tuple([number - first for _, number in scheduled.outputs]))
