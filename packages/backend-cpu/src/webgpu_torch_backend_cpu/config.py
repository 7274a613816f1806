"""The environment variables that the CPU backend reads."""

from __future__ import annotations

from webgpu_torch_core.config import Variable

JIT = Variable(
    "WEBGPU_TORCH_CPU_JIT",
    "0: NumPy runs all kernels of the CPU; wait: they are compiled before they first run, rather than beside NumPy",
)
