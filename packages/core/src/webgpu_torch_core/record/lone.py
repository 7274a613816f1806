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
#: which of one or two operands are one
_ONE, _ONE_TWICE, _TWO = (0,), (0, 0), (0, 1)
_UNKNOWN: Any = object()


class Lone(NamedTuple):
    """How a kernel runs alone.

    Fields:
        kernel: the one that was recorded; its identity is what it is found by, as long as it is here.
        launch: what takes its buffers, each once, and its parameters, and returns those of its outputs.
        single: the type and the number of elements of its output, if there is one only.
        order: which of the buffers each of several outputs is.
    """

    kernel: Kernel
    launch: Callable[[list[Any], Sequence[float | int]], list[Any]]
    single: tuple[dtype, int] | None
    order: tuple[int, ...]


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
    # Which operands are one; the usual patterns are there already.
    given = buffers
    if len(buffers) == 1:
        same = _ONE
    elif len(buffers) == 2:
        same = _TWO
        if buffers[0] is buffers[1]:
            same, given = _ONE_TWICE, buffers[:1]
    else:
        same, given = tuple(map(buffers.index, buffers)), list(dict.fromkeys(buffers))
    key = (id(kernel), same)
    found = engine.lone.get(key, _UNKNOWN)
    try:
        if found is _UNKNOWN:
            with engine.lock:
                found = _planned(engine, key, kernel, values, parameters)
        if found is None:
            recorder.lone = 0
            return None
        made = found.launch(given, parameters)
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


def _planned(
    engine: Engine,
    key: tuple[int, tuple[int, ...]],
    kernel: Kernel,
    values: Sequence[Value],
    parameters: Sequence[float | int],
) -> Lone | None:
    """Return how a kernel runs alone, overwriting none of its operands; None where it cannot."""
    tape = Tape()
    operands = tuple([tape.admit(value, value.buffer) for value in values])
    first = len(tape.slots)
    made = [Value(engine, output.dtype, output.numel) for output in kernel.outputs]
    tape.slots += map(ref, made)
    tape.entries.append(Entry(kernel, operands, first, tuple(parameters)))
    scheduled = engine.schedule(tape, [0], range(first, len(tape.slots)), (), True)
    # Inputs as they come in, and an output of its own for each.
    alone = scheduled.single and scheduled.inputs == tuple(range(first)) and len(scheduled.outputs) == len(made)
    found = None
    if alone:
        launch = engine.device.single(scheduled.plan, scheduled.fresh)
        single = (made[0].dtype, made[0].numel) if len(made) == 1 else None
        found = Lone(kernel, launch, single, tuple([number - first for _, number in scheduled.outputs]))
    engine.lone[key] = found
    return found
