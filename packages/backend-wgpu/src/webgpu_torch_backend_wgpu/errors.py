"""Errors of the GPU as Python exceptions."""

from __future__ import annotations

import re

from webgpu_torch_core.backend.interface import DeviceLostError, OutOfMemoryError

from .gpu.interface import GpuError


class KernelError(RuntimeError):
    """A kernel was refused or failed; the message names it and the operation."""


_LINES_AROUND = 5
#: a line and a column, as wgpu-native (``wgsl:6:15``) and Dawn (``:6:15 error``) have them
_PLACE = re.compile(r":(\d+):\d+")


def numbered(source: str, message: str) -> str:
    """Return a compiler's message with the numbered lines of source around the one it names (``:line:column``)."""
    line = _line_of(message)
    lines = source.splitlines()
    if line:
        first, last = max(line - 1 - _LINES_AROUND, 0), min(line + _LINES_AROUND, len(lines))
    else:
        first, last = 0, min(len(lines), 60)
    shown = "\n".join(
        f"{'>' if number + 1 == line else ' '}{number + 1:4} | {lines[number]}" for number in range(first, last)
    )
    return f"{message.rstrip()}\n{shown}"


def _line_of(message: str) -> int:
    """Return the line a compiler message points at, 0 where it names none."""
    found = _PLACE.search(message)
    return int(found[1]) if found else 0


def translate(error: GpuError, doing: str) -> Exception:
    """Return the exception for an error that was reported while ``doing`` something."""
    text = str(error).strip()
    if error.kind == "lost":
        return DeviceLostError(
            f"the WebGPU device was lost while {doing}: {text}. Tensors on it cannot be read any more."
        )
    if error.kind == "out-of-memory":
        return OutOfMemoryError(f"WebGPU out of memory while {doing}: {text}")
    return KernelError(f"WebGPU {error.kind} error while {doing}: {text}")
