"""What a profiler hears from the engine: plans as they are scheduled and run. Costs one test per plan while none listens."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .interface import Device

if TYPE_CHECKING:
    from ..record.runs import Run


class Observer:
    """Runs what the engine does on its behalf, so that it can take the time; this one takes none."""

    def timed(self, name: str, action: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a part of the library's own work, which profiles show by this name."""
        return action(*arguments)

    def advance(self, device: Device, run: Run) -> None:
        """Run a plan on a device from where it stands."""
        device.advance(run)

    def forget(self) -> None:
        """Stop in a forked process: what it does is not the parent's work."""


_listening: list[Observer] = []
#: the observer that hears, read once per call: another thread may change it at any time
listener: Observer | None = None


def observe(observer: Observer) -> None:
    """Let an observer hear of everything until :func:`ignore`; the one before it pauses."""
    global listener
    _listening.append(observer)
    listener = observer


def ignore(observer: Observer) -> None:
    """Stop an observer."""
    global listener
    if observer in _listening:
        _listening.remove(observer)
    listener = _listening[-1] if _listening else None


def timed(name: str, action: Callable[..., Any], *arguments: Any) -> Any:
    """Do a part of the library's work under a name."""
    observer = listener
    return action(*arguments) if observer is None else observer.timed(name, action, *arguments)


def _forget() -> None:
    global listener
    for observer in _listening:
        observer.forget()
    _listening.clear()
    listener = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
