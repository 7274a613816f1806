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
from .runs import picker
from .tape import Entry, Tape, Value, new_value

if TYPE_CHECKING:
    from ..backend.interface import Launch
    from .engine import Engine
    from .recorder import Recorder

#: so many results in a row, each asked for alone, before the next kernel runs at once
LONE_AFTER = 4


class Lone:
    """How a kernel runs alone.

    Attributes:
        kernel: the one that was recorded; its identity is what it is found by, as long as it is here.
        launch: what takes the values of its operands and its parameters, and returns the buffers of its outputs; None where it has
            to be recorded.
        picked: what picks the values that the plan reads, in its order; None where these are all of them as they are.
        order: which of the buffers each output's is; None where there is one only.
    """

    __slots__ = ("dtype", "engine", "kernel", "launch", "numel", "order", "picked")

    def __init__(
        self, engine: Engine, kernel: Kernel, launch: Launch | None, inputs: tuple[int, ...], order: tuple[int, ...]
    ) -> None:
        self.engine, self.kernel, self.launch = engine, kernel, launch
        self.picked = None if inputs == tuple(range(len(kernel.operands))) else picker(inputs)
        self.dtype, self.numel = kernel.outputs[0].dtype, kernel.outputs[0].numel
        self.order = order if len(order) > 1 else None

    def run(
        self, recorder: Recorder, values: Sequence[Value], parameters: Sequence[float | int]
    ) -> Sequence[Value] | None:
        """Run the kernel and return what it made; None where it has to be recorded.

        Nothing is lost by an exception: the kernel writes into new buffers only, and what recording it raises has its name.
        """
        if recorder.unread:
            recorder.unread, recorder.lone = False, 0
            return None
        launch, engine, tape = self.launch, self.engine, recorder.tape
        # Once it ran a tape is empty.
        if tape.entries or profiling.listener is not None or recorder.switches["capture"] is not None:
            return None
        if launch is None:
            recorder.lone = 0
            return None
        try:
            made = launch(values if self.picked is None else self.picked(values), parameters)
        except Exception:
            # One of the values may be another device's, or what another thread has not computed yet.
            return None
        engine.at_once += 1
        recorder.unread = True
        if self.order is None:
            return (new_value(engine, self.dtype, self.numel, made[0]),)
        outputs = self.kernel.outputs
        return [
            new_value(engine, each.dtype, each.numel, made[place])
            for each, place in zip(outputs, self.order, strict=True)
        ]


def lone(engine: Engine, kernel: Kernel, values: Sequence[Value], parameters: Sequence[float | int]) -> Lone:
    """Return how a kernel runs alone, which is remembered."""
    with engine.lock:
        try:
            found = _planned(engine, kernel, values, parameters)
        except Exception:
            # Recording it raises what it is.
            return Lone(engine, kernel, None, (), ())
        engine.lone[id(kernel)] = found
        return found


def _planned(engine: Engine, kernel: Kernel, values: Sequence[Value], parameters: Sequence[float | int]) -> Lone:
    """Return how a kernel runs alone, over buffers of which several may be one, and overwriting none of them."""
    tape = Tape()
    given = [new_value(engine, value.dtype, value.numel, object()) for value in values]
    operands = tuple([tape.admit(value, value.buffer) for value in given])
    first = len(tape.slots)
    made = [new_value(engine, output.dtype, output.numel) for output in kernel.outputs]
    tape.slots += map(ref, made)
    tape.entries.append(Entry(kernel, operands, first, tuple(parameters)))
    scheduled = engine.schedule(tape, [0], range(first, len(tape.slots)), (), True)
    # An output of its own for each.
    if not scheduled.single or len(scheduled.outputs) != len(made):
        return Lone(engine, kernel, None, (), ())
    launch = engine.device.single(scheduled.plan, scheduled.fresh)
    # Slots are operands' numbers; new buffers are counted behind those that are read.
    order = tuple([number - len(scheduled.inputs) for _, number in scheduled.outputs])
    return Lone(engine, kernel, launch, scheduled.inputs, order)
