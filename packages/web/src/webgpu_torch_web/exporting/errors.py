"""What is wrong with a function that is to be exported."""

from __future__ import annotations

import linecache
import sys

import webgpu_torch_core

#: packages whose functions are operations, not the program's own code; and what stands between the two
_LIBRARY = ("webgpu_torch", "webgpu_torch_core", "webgpu_torch_backend_wgpu", "webgpu_torch_web")
_BETWEEN = ("webgpu_torch_core.dispatch.", "webgpu_torch_core.replay.")


class ExportError(RuntimeError):
    """A function does what a folder of kernels cannot do again; the message names the operation."""


def asking() -> str:
    """Return the operation that the program's code called, and where, for a message."""
    name = ""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        own = frame.f_code.co_name
        if module.partition(".")[0] not in _LIBRARY:
            file, line = frame.f_code.co_filename, frame.f_lineno
            text = linecache.getline(file, line).strip()
            place = f"`{text or own}` ({file}, line {line})"
            return f"'{name}' in {place}" if name else place
        public = hasattr(webgpu_torch_core.Tensor, own) or hasattr(webgpu_torch_core, own)
        # Methods that Python calls by themselves have other names inside.
        if public and not own.startswith("_") and not module.startswith(_BETWEEN):
            name = own
        frame = frame.f_back
    return f"'{name}'"
