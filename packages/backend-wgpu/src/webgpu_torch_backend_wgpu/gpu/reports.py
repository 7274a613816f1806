"""What a library behind ``webgpu.h`` calls back about: errors, a loss of the device, and interrupts that hit a callback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .interface import GpuError

_ERROR_KINDS = {2: "validation", 3: "out-of-memory"}
_DESTROYED_BY_US = 2


def text_of(ffi: Any, view: Any) -> str:
    """Return the text of a WGPUStringView."""
    return ffi.string(view.data, view.length).decode(errors="replace") if view.data and view.length else ""


class Reports:
    """What the callbacks of a device said: the first error of each thread, a loss, and an interrupt that hit a callback."""

    def __init__(self, ffi: Any) -> None:
        self.ffi = ffi
        self._local = threading.local()
        self._interrupt: BaseException | None = None
        #: whether what is reported in this thread is of a thread that nobody asks for it, and that error
        self.is_beside: Callable[[], bool] | None = None
        self._beside: GpuError | None = None
        self.lost: str | None = None
        arguments = "WGPUStringView, void *, void *)"
        self.uncaptured = self.callback(f"void(WGPUDevice const *, WGPUErrorType, {arguments}", self._on_error)
        self.on_loss = self.callback(f"void(WGPUDevice const *, WGPUDeviceLostReason, {arguments}", self._on_loss)

    def callback(self, kind: str, function: Callable[..., object]) -> Any:
        """Return a C callback; an exception in it (an interrupt, say) is raised by the next :meth:`check`."""
        return self.ffi.callback(kind, function, onerror=self._on_exception)

    def _on_exception(self, _kind: Any, exception: BaseException, _traceback: Any) -> None:
        self._interrupt = exception

    def check(self) -> None:
        """Raise the exception that hit a callback."""
        if self._interrupt is not None:
            raised, self._interrupt = self._interrupt, None
            raise raised

    def _on_error(self, _device: Any, kind: int, message: Any, _first: Any, _second: Any) -> None:
        text = "\n".join(line.rstrip() for line in text_of(self.ffi, message).splitlines())
        named = "lost" if "is lost" in text or "device lost" in text.lower() else _ERROR_KINDS.get(kind, "internal")
        error = GpuError(named, text)
        if self.is_beside is not None and self.is_beside():
            self.put_beside(error)
        else:
            self.put(error)

    def _on_loss(self, _device: Any, reason: int, message: Any, _first: Any, _second: Any) -> None:
        if reason != _DESTROYED_BY_US:
            self.lost = text_of(self.ffi, message) or "no reason given"

    def put(self, error: GpuError | None) -> None:
        """Keep an error for this thread's next :meth:`take`, unless there is one already."""
        if error is not None and getattr(self._local, "error", None) is None:
            self._local.error = error

    def put_beside(self, error: GpuError) -> None:
        """Keep an error for whichever thread takes one next."""
        self._beside = self._beside or error

    def pending(self) -> bool:
        """Return whether there is an error for this thread to take."""
        return self._beside is not None or getattr(self._local, "error", None) is not None

    def take(self) -> GpuError | None:
        """Return and forget this thread's first error, or that of a thread that takes none."""
        found = self.take_own()
        if self._beside is not None:
            found, self._beside = found or self._beside, None
        return found

    def take_own(self) -> GpuError | None:
        """Return and forget this thread's first error."""
        found = getattr(self._local, "error", None)
        if found is not None:
            self._local.error = None
        return found
