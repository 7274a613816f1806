"""Every dispatch timed, for profilers and ``WEBGPU_TORCH_DEBUG=2``; nothing here is on the usual path."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from webgpu_torch_core.ir.kernels import Kernel

from .gpu.interface import COPY, WORDS, Gpu
from .replay import Prepared, Recording, in_order


class Profiler:
    """Runs recordings one command at a time, each timed on the GPU where it has timestamps, else by waiting for it."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.on_device = "timestamp-query" in gpu.features

    def timed(self, command: Sequence[int]) -> float:
        """Run one command and return the seconds it took."""
        gpu = self.gpu
        recording = gpu.own(gpu.record(command))
        gpu.wait()
        if self.on_device and command[0] != COPY:
            return gpu.timed(recording.handle)
        start = time.perf_counter()
        gpu.submit(recording.handle)
        gpu.wait()
        return time.perf_counter() - start

    def run(
        self, prepared: Prepared, recording: Recording, report: Callable[[str, float, str], None] | None = None
    ) -> None:
        """Run a recording and tell of every dispatch: to ``report`` as :meth:`Device.run_timed` says, else by a line."""
        order = iter(in_order(prepared))
        for command in recording.each():
            seconds = self.timed(command)
            if command[0] == COPY:
                if report is None:
                    print(f"webgpu: {'copy':40} {'copy':12} {command[WORDS - 1]} bytes", file=sys.stderr)
                continue
            step, pipeline = next(order)
            if report is None:
                print(_line(step.kernel, pipeline.name, pipeline.workgroups, seconds), file=sys.stderr)
            else:
                report(pipeline.name, seconds, "device" if self.on_device else "host")


def _line(kernel: Kernel, name: str, workgroups: tuple[int, int, int], seconds: float) -> str:
    rate = f"{kernel.nbytes() / seconds / 1e9:8.1f} GB/s" if seconds > 0 else ""
    if kernel.form == "contraction" and seconds > 0:
        rate = f"{2 * kernel.elements() / seconds / 1e9:8.1f} GFLOP/s"
    return f"webgpu: {name:40} {kernel.form:12} workgroups {workgroups} {seconds * 1e6:9.1f} µs {rate}"
