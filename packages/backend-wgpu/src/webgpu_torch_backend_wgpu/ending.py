"""What ends a device: the end of the interpreter, and of its use in a process that was forked."""

from __future__ import annotations

import atexit
import functools
import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import WgpuDevice


def end_with_process(device: WgpuDevice) -> None:
    """Let the GPU finish before the interpreter takes the runtime apart, and refuse a device's use in forked processes."""
    reference = weakref.ref(device)
    atexit.register(_close, reference)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(_refuse, reference))


def _close(reference: weakref.ref[WgpuDevice]) -> None:
    device = reference()
    if device is not None and device.lost is None:
        device.gpu.wait()


def _refuse(reference: weakref.ref[WgpuDevice]) -> None:
    """Make every use of the device in a forked process an error: the driver's connection belongs to the parent."""
    device = reference()
    if device is not None:
        device.reopens = False
        device.lost = (
            f"Cannot use {device.name} in a forked subprocess. To use WebGPU with multiprocessing, you must use the "
            "'spawn' start method"
        )
