"""What is made once, such as an optimiser's state, on a tape of its own: so the tape around it is the one of the next time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from .ahead import Ahead
from .context import context
from .devices import device, engine_for
from .engine import Engine
from .tape import Tape


@contextmanager
def computed_apart(place: device) -> Generator[None]:
    """Compute what is recorded for a device in this region, and needs nothing recorded before, in the end; a capture takes it as it is."""
    engine = engine_for(place)
    if context.capture is not None or not isinstance(engine, Engine):
        yield
        return
    recorder = engine.recorder
    present = recorder.tape, recorder.ahead, recorder.lone, recorder.unread
    recorder.tape, recorder.ahead, recorder.lone = Tape(), Ahead(), 0
    try:
        yield
        engine.flush()
    finally:
        recorder.tape, recorder.ahead, recorder.lone, recorder.unread = present
