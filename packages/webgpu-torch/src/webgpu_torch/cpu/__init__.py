"""``torch.cpu``: the CPU with the functions of a device module; all of them return at once."""

from __future__ import annotations

import platform
from types import TracebackType
from typing import Any

from . import amp as amp


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return ``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one CPU."""


def synchronize(device: Any = None) -> None:
    """Wait until what was asked of the CPU is done."""
    from webgpu_torch_core.record.devices import synchronize as synchronize_device

    synchronize_device("cpu")


class Stream:
    """The CPU's only queue of work."""

    def __init__(self, priority: int = -1) -> None: ...

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: there is one queue."""

    def record_event(self) -> Event:
        """Return an event that has happened."""
        return Event()

    def wait_event(self, event: Any) -> None:
        """Do nothing: events of the CPU have happened."""


class Event:
    """A moment in the CPU's queue, which is always past."""

    def query(self) -> bool:
        """Return True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def wait(self, stream: Any = None) -> None:
        """Do nothing."""


class StreamContext:
    """A block of code whose work goes to the CPU's only queue."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


_stream = Stream()


def current_stream(device: Any = None) -> Stream:
    """Return the CPU's only queue."""
    return _stream


def stream(stream: Any) -> StreamContext:
    """Return a context that changes nothing."""
    return StreamContext(stream)


def get_capabilities() -> dict[str, object]:
    """Return what is known of the processor: its architecture."""
    return {"architecture": platform.machine()}
