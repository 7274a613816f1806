"""What this build is, as ``torch.__config__``."""

from __future__ import annotations

import os

from webgpu_torch_core import get_num_interop_threads, get_num_threads

from .version import __version__


def show() -> str:
    """Return a text on what this build is and which devices it has."""
    from webgpu_torch_core.backend.plugins import registry

    registry.load()
    devices = ", ".join(sorted(registry.backends))
    return f"webgpu-torch, with the API of PyTorch {__version__}\n  - kernels are printed for each device when they are needed\n  - devices: {devices}\n"


def parallel_info() -> str:
    """Return a text on the threads that compute."""
    return (
        f"ATen/Parallel:\n\tat::get_num_threads() : {get_num_threads()}\n\tat::get_num_interop_threads() : "
        f"{get_num_interop_threads()}\nstd::thread::hardware_concurrency() : {os.cpu_count()}\n"
    )


def _cxx_flags() -> str:
    """Return no flags: nothing is compiled ahead."""
    return ""
