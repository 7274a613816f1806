"""Every dispatch timed, for profilers and ``WEBGPU_TORCH_DEBUG=2``; nothing here is on the usual path."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from webgpu_torch_core.ir.kernels import Kernel

from .native import NULL, Recorder, Timer
from .replay import Prepared, Recording, in_order


class Profiler:
    """Runs recordings one dispatch at a time, each timed on the GPU where it has timestamps, else by waiting for it."""

    def __init__(self, device: Any, recorder: Recorder, timestamps: bool) -> None:
        self.recorder = recorder
        self.timer = Timer(device) if timestamps else None

    def timed(self, dispatches: list[tuple[Any, Any, int, int, int]]) -> float:
        """Run dispatches as one compute pass and return the seconds it took."""
        recorder, timer = self.recorder, self.timer
        recorder.flush(wait=True)
        recorder.begin()
        start = time.perf_counter()
        recorder.dispatch(dispatches, timer.writes if timer else NULL)
        if timer:
            timer.resolve(recorder)
        recorder.submit()
        if timer:
            return timer.seconds(recorder)
        recorder.poll(True)
        return time.perf_counter() - start

    def run(
        self, prepared: Prepared, recording: Recording, report: Callable[[str, float, str], None] | None = None
    ) -> None:
        """Run a recording and tell of every dispatch: to ``report`` as :meth:`Device.run_timed` says, else by a line."""
        order = iter(in_order(prepared))
        for submit in recording.submits:
            for part in submit:
                if isinstance(part, tuple):
                    self.recorder.begin()
                    self.recorder.copy(*part)
                    self.recorder.submit()
                    if report is None:
                        print(f"webgpu: {'copy':40} {'copy':12} {part[2]} bytes", file=sys.stderr)
                    continue
                for each in part:
                    step, pipeline = next(order)
                    seconds = self.timed([(pipeline.handle, *each[1:])])
                    if report is None:
                        print(_line(step.kernel, pipeline.name, pipeline.workgroups, seconds), file=sys.stderr)
                    else:
                        report(pipeline.name, seconds, "device" if self.timer else "host")


def _line(kernel: Kernel, name: str, workgroups: tuple[int, int, int], seconds: float) -> str:
    moved = sum(each.numel * each.dtype.itemsize for each in (*kernel.operands, *kernel.outputs))
    rate = f"{moved / seconds / 1e9:8.1f} GB/s" if seconds > 0 else ""
    if kernel.form == "contraction" and seconds > 0:
        rate = f"{2 * kernel.elements() / seconds / 1e9:8.1f} GFLOP/s"
    return f"webgpu: {name:40} {kernel.form:12} workgroups {workgroups} {seconds * 1e6:9.1f} µs {rate}"
