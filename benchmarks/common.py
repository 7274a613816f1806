"""What the benchmarks share: timing on both sides, side by side, in one run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from webgpu_torch_core.record.devices import synchronize

#: seconds of load before the first timing of a process, and before each, after the first calls compiled their kernels: a GPU
#: that idles lets its clocks fall and raises them late. Under Vulkan an H200 stays at a fifth of its clock for about the first
#: second of work, where CUDA raises it at once.
FIRST_LOAD, LOAD = 2.0, 0.75
#: beyond its least length a load lasts until a part of it (seconds) takes no less time a call than this share of the part
#: before it; no longer than this
PART, STEADY, LONGEST = 0.25, 0.95, 3.0
_loaded: list[float] = []


def seconds(call: Callable[[], Any], wait: Callable[[], Any], repeats: int = 10, batch: int = 5) -> float:
    """Return the median time of one call: ``batch`` calls between waits, ``repeats`` times, after a warm-up."""
    _load(call, wait, LOAD if _loaded else FIRST_LOAD)
    _loaded.append(time.perf_counter())
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(batch):
            call()
        wait()
        found.append((time.perf_counter() - start) / batch)
    return statistics.median(found)


def _load(call: Callable[[], Any], wait: Callable[[], Any], least: float) -> None:
    """Call until the times of calls do not fall any more, for ``least`` seconds or longer."""
    for _ in range(2):
        call()
        wait()
    began, before = time.perf_counter(), math.inf
    while True:
        part, count = time.perf_counter(), 0
        while time.perf_counter() - part < PART or not count:
            call()
            wait()
            count += 1
        now = time.perf_counter()
        each = (now - part) / count
        if now - began > LONGEST or (now - began >= least and each > STEADY * before):
            return
        before = each


def device() -> str:
    """Return the device measured: ``WEBGPU_TORCH_DEVICE``, else webgpu."""
    import os

    return os.environ.get("WEBGPU_TORCH_DEVICE", "webgpu")


def wait_ours() -> None:
    """Run what is pending here and wait for it."""
    synchronize(device())


def peer() -> Any:
    """Return PyTorch with CUDA, TF32 off, or None where there is none."""
    try:
        import torch as pytorch
    except ImportError:
        return None
    if not pytorch.cuda.is_available():
        return None
    pytorch.backends.cuda.matmul.allow_tf32 = False
    pytorch.backends.cudnn.allow_tf32 = False
    return pytorch


def report(name: str, ours: float, theirs: float | None, amount: float, unit: str) -> None:
    """Print one line: our time and rate, PyTorch's, and the ratio of rates."""
    line = f"{name:34} {ours * 1e3:9.3f} ms {amount / ours:9.2f} {unit}"
    if theirs is not None:
        line += f" | PyTorch {theirs * 1e3:9.3f} ms {amount / theirs:9.2f} {unit} | ratio {theirs / ours:5.2f}"
    print(line, flush=True)
