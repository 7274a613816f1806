"""Queues of work and moments in them, as ``torch.Stream`` and ``torch.Event``: each device has one queue, in the order of recording."""

from __future__ import annotations

import itertools
import time

from webgpu_torch_core import device as Device
from webgpu_torch_core.record.devices import accelerator, canonical_device, engine_for
from webgpu_torch_core.record.devices import synchronize as synchronize_device

_numbers = itertools.count()


def place_of(device: Device | int | str | None) -> Device:
    """Return a device; of a number, or None, the accelerator's.

    Raises:
        RuntimeError: a number, and there is no accelerator.
    """
    kind = accelerator()
    if isinstance(device, int):
        if kind is None:
            raise RuntimeError("Cannot access accelerator device when none is available.")
        device = f"{kind}:{device}"
    return canonical_device(device or kind or "cpu")


def _index(place: Device) -> int:
    """Return a device's number, -1 where there is only one of its type."""
    return -1 if place.index is None else place.index


def _shown(place: Device) -> str:
    """Return a device as streams and events show it."""
    return f"device_type={place.type}, device_index={_index(place)}"


class Stream:
    """The queue of work of a device: what is recorded first is computed first, whatever streams are made.

    Args:
        device: the device, or the number of an accelerator; the accelerator, else the CPU, without one.
        priority: without effect, as there is one queue.
    """

    def __init__(self, device: Device | int | str | None = None, *, priority: int = 0) -> None:
        self.device = place_of(device)
        self.stream_id = 0

    @property
    def device_index(self) -> int:
        """The device's number, -1 where there is only one of its type."""
        return _index(self.device)

    def query(self) -> bool:
        """Return True: all work is done then, which WebGPU tells to who waits for it only."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Run what is pending and wait until it is done; raise what failed."""
        synchronize_device(self.device)

    def wait_event(self, event: Event) -> None:
        """Do nothing: what follows is computed after what was recorded before the event."""

    def wait_stream(self, other_stream: Stream) -> None:
        """Do nothing: what follows on a tensor waits for what makes it, on whatever device."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one by default, and return it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *problem: object) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"
        )


class Event:
    """A moment in a device's queue.

    Args:
        device: the device, or the number of an accelerator; the accelerator, else the CPU, without one.
        enable_timing: whether the event is for :meth:`elapsed_time`. Recording one waits for the work before it, so that times are
            those of finished work.
        blocking, interprocess: without effect, as in PyTorch.
    """

    def __init__(
        self,
        device: Device | int | str | None = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = place_of(device)
        self.event_id = 0
        self._timing = enable_timing
        self._moment = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Let the event stand behind what is recorded so far, on the event's device or the stream's.

        Raises:
            RuntimeError: the stream is another device's.
        """
        if stream is not None and stream.device != self.device:
            raise RuntimeError(f"Event device {self.device} does not match recording stream's device {stream.device}.")
        if self._timing:
            synchronize_device(self.device)
        else:
            engine_for(self.device).flush()
        self._moment = time.perf_counter()
        self.event_id = self.event_id or next(_numbers) + 1

    def wait(self, stream: Stream | None = None) -> None:
        """Do nothing: what a stream gets later is computed later."""

    def query(self) -> bool:
        """Return True: all work before the event is done then, which WebGPU tells to who waits for it only."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait until what was recorded before the event is done; raise what failed."""
        if self.event_id:
            synchronize_device(self.device)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to another.

        Raises:
            ValueError: one of them takes no times, or was not recorded.
        """
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.event_id and end_event.event_id):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._moment - self._moment) * 1e3

    def __repr__(self) -> str:
        return f"torch.Event {_shown(self.device)}, event_flag={int(self._timing)}, event_id={self.event_id}"
